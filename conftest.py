"""For all tests of the repository: how the suite is run (see ``tools/suite``)."""

pytest_plugins = ["suite.azure", "suite.hdfs", "suite.plugin", "suite.heard", "suite.killed", "suite.s3", "suite.spark"]
