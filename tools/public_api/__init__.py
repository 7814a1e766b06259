"""The public API of Penstock's packages: listed, and compared with the last release.

The listing of a package is ``docs/api/<package>.txt``, one line for each name, sorted. What the last release had is
``docs/api/released/<package>.txt``; a package that has not been released has no such file. A difference between the
two is *announced* by a fragment in ``changelog.d/``: see :mod:`public_api.announced`. ``scripts/api`` is the command.
"""
