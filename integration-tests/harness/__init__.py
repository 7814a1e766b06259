"""What the integration tests, the matrix and the soaks stand on.

======================  ==============================================================================================
``driver``              :class:`~harness.driver.Driver`: one Spark driver as a process, its fault points, its end
``faults``              SIGKILL or SIGSTOP at a chosen call, in whatever Python process of the driver makes it
``kills``               what is killed from outside: driver, executor, Python worker, server
``cluster``             a Spark standalone cluster
``connect``             a Spark Connect server and its clients
``systems``             what every test of the directory shares: a bucket, servers of Pravega and Cassandra
``feeding``             what is to be read: CSV files, records with numbers
``oracle``              what must have come out: every row once, keys in order
``watcher``             a reader of committed records that watches a topic all the time
``checkpoint``          what a checkpoint says of its query
``job``                 for ``jobs/``, in the driver: arguments, the session, a straggler
``processes``           processes in groups of their own, and those that run below them
``waiting``             :func:`~harness.waiting.wait_until`
======================  ==============================================================================================

Modules are imported one by one: a driver needs ``harness.job`` and nothing else.
"""
