"""For all tests of the repository: how the suite is run (see ``tools/suite``)."""

pytest_plugins = [
    *("suite.azure", "suite.gcs", "suite.hdfs", "suite.s3", "suite.spark"),
    *("suite.plugin", "suite.heard", "suite.killed", "suite.properties", "suite.signals"),
]
