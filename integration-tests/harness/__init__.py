"""The harness of the integration tests, the matrix and the soaks.

====================  =========================================================================================
``driver``            runs a job in a Spark driver process, and waits for its end or for its fault points
``faults``            kills or stops a driver, or one of its tasks, at a chosen call
``kills``             kills a driver, an executor, a Python worker or a server at any moment
``cluster``           runs a Spark standalone cluster
``connect``           runs a Spark Connect server and its clients
``systems``           provides S3 buckets and Pravega scopes
``feeding``           writes the input of a stream
``oracle``            compares the output with what must be there: every row once, the values of a key in order
``watcher``           reads a Kafka topic while jobs write it
``checkpoint``        reads a checkpoint: its batches, its decisions, its query
``job``               is what the scripts in ``jobs/`` share; it runs in the driver
``processes``         starts process groups, and finds the processes below them
``waiting``           waits for a condition
====================  =========================================================================================

Import the modules one by one: a driver needs ``harness.job`` and must not load the others.
"""
