"""Dead letters of a query, sent through again. Argument: checkpoint."""

import penstock
from harness.job import arguments, session

given = arguments()
penstock.replay(session(given), given["checkpoint"])
