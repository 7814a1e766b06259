"""Searches for schedules under which a sink loses, doubles or hides a row."""

from penstock.testing.simulation._complete import Complete, search_completely
from penstock.testing.simulation._pieces import PieceTarget
from penstock.testing.simulation._real import RealTarget, SinkUnderTest
from penstock.testing.simulation._scheduler import Event, Faults, Process, Scheduler
from penstock.testing.simulation._search import Failure, MakeTarget, Report, plan_of, run_schedule, search, shrink
from penstock.testing.simulation._sent import CellTarget, SendTarget
from penstock.testing.simulation._target import SimulatedTarget, Violation, target
from penstock.testing.simulation._world import Plan, World

__all__ = [
    "CellTarget",
    "Complete",
    "Event",
    "Failure",
    "Faults",
    "MakeTarget",
    "PieceTarget",
    "Plan",
    "Process",
    "RealTarget",
    "Report",
    "Scheduler",
    "SendTarget",
    "SimulatedTarget",
    "SinkUnderTest",
    "Violation",
    "World",
    "plan_of",
    "run_schedule",
    "search",
    "search_completely",
    "shrink",
    "target",
]
