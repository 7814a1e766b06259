"""The catalogue of planted flaws: each is a mistake that authors make, and the conformance kit has to catch it.

``core/tests/flaws/<kind>/<name>.flaw`` is a change to a small connector that passes the kit. ``python -m flaws`` makes
each of them in a copy, runs the kit there without Spark, and writes down which case fails, and after how long.
"""
