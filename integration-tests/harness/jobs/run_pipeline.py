"""``penstock run`` in a process that has fault points. Arguments: file, the pipeline's."""

import sys

from harness.job import arguments
from penstock.cli import main

sys.argv = ["penstock", "run", "--plain", arguments()["file"]]
main()
