"""The cases that every connector has to pass, whichever way rows go: options, secrets, stored forms, refusals."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.connector import Capability, Connector
from penstock.errors import BadConfigurationError, BadDataError, FatalError, PenstockError
from penstock.options import OptionSet, OptionValues
from penstock.serialization import SimpleVersionedSerializer, Versioned
from penstock.testing._capabilities import THE_SIDE, capability_of, proves
from penstock.testing._disks import without_waiting_for_disks
from penstock.testing._option_cases import OptionCases
from penstock.testing._spark_source import data_source

__all__ = ["ConnectorSuite"]

_SECRET = "s3cr3t-of-the-kit"
_COMBINATIONS = 30
#: What no option of that kind takes.
_WRONG = {
    "int": "many",
    "float": "much",
    "bool": "perhaps",
    "bytes": "some",
    "duration": "a while",
    "choice": "neither",
    "column": " ",
    "columns": " ,",
}


class ConnectorSuite:
    """Base of the suites. ``connector`` is under test. ``option_examples`` are texts that options take, by their names,
    where a declaration does not say. ``golden`` is a folder with stored forms of earlier versions,
    ``<name>-v<version>.json`` (as :meth:`penstock.serialization.Versioned.to_json` gives them); needed once a
    serializer is at version 2. ``case_seconds``: a case that takes longer has failed (s).
    """

    is_penstock_suite: ClassVar[bool] = True
    connector: ClassVar[type[Connector]]
    option_examples: ClassVar[Mapping[str, Sequence[str]]] = {}
    golden: ClassVar[Path | None] = None
    case_seconds: ClassVar[float] = 120.0
    side: ClassVar[Capability]

    @pytest.fixture(autouse=True)
    def _disks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        without_waiting_for_disks(monkeypatch)

    @pytest.fixture(autouse=True)
    def _declared(self, request: pytest.FixtureRequest) -> None:
        capability, refused = capability_of(request.function, self)
        if capability is None:
            return
        declared = capability in self.connector.capabilities
        if declared and refused:
            pytest.skip(f"declared: {capability}")
        if not declared and not refused:
            pytest.skip(f"not declared: {capability}")

    # --- what the suites of a source and of a sink say ----------------------------------------------------------------

    @pytest.fixture
    def given(self) -> Mapping[str, str]:
        """Options that work, as a user writes them."""
        raise NotImplementedError

    def _option_set(self) -> OptionSet:
        """Returns the connector's declared options for this side."""
        raise NotImplementedError

    def _create(self, options: OptionValues) -> Any:
        """Returns the source, or the sink, with these options."""
        raise NotImplementedError

    def _serializers(self, made: Any) -> dict[str, SimpleVersionedSerializer[Any]]:
        """Returns what is stored, by name."""
        raise NotImplementedError

    def _parse(self, texts: Mapping[str, str]) -> OptionValues:
        return self._option_set().parse(texts, owner=f"{self.connector.__name__} under test")

    def _secrets(self, given: Mapping[str, str]) -> dict[str, str]:
        """Returns the values of secret options among ``given``, long enough to be searched for."""
        declared = {name: self._option_set().find(name) for name in given}
        secret = [name for name, one in declared.items() if one is not None and one.secret]
        return {name: given[name] for name in secret if len(given[name]) > 3}

    def _data_source(self, given: Mapping[str, str]) -> Any:
        """Returns the data source as Spark constructs it."""
        return data_source(self.connector)(dict(given))

    @staticmethod
    def _refused(capability: Capability) -> Any:
        return pytest.raises(BadConfigurationError, match=rf"{capability.replace('-', ' ')}|has no (source|sink)")

    @staticmethod
    def _struct(schema: pa.Schema) -> Any:
        return from_arrow_schema(schema)

    # --- objects ------------------------------------------------------------------------------------------------------

    @proves(THE_SIDE)
    def test_it_can_be_pickled(self, given: Mapping[str, str]) -> None:
        """Purpose: source and sink are made on the driver and sent to every task.

        Steps: it is pickled and unpickled.
        Pass: that works, and takes less than 1 MB.
        If it fails: keep configuration only; open connections and files in the factories of readers, writers,
        committers and enumerators.
        """
        made = self._create(self._parse(given))
        pickled = pickle.dumps(made)
        assert len(pickled) < 1_000_000
        assert type(pickle.loads(pickled)) is type(made)

    # --- options ------------------------------------------------------------------------------------------------------

    @proves(THE_SIDE)
    def test_an_unknown_option_is_refused(self, given: Mapping[str, str]) -> None:
        """Purpose: a typing error must not silently do something else.

        Steps: an option that does not exist.
        Pass: BadConfigurationError that names it.
        If it fails: declare every option; a prefix must not swallow all names.
        """
        with pytest.raises(BadConfigurationError, match="noSuchOptionAtAll"):
            self._create(self._parse({**given, "noSuchOptionAtAll": "1"}))

    @proves(THE_SIDE)
    def test_a_value_of_the_wrong_type_is_refused(self, given: Mapping[str, str]) -> None:
        """Purpose: '10 rows' where a number is expected is reported before anything runs.

        Steps: every option that is not free text gets a value that it can't take.
        Pass: BadConfigurationError that names the option, each time.
        If it fails: declare the option's kind, and use the value that was parsed.
        """
        for option in self._option_set():
            if option.kind not in _WRONG or option.is_prefix:
                continue
            with pytest.raises(BadConfigurationError, match=option.name):
                self._create(self._parse({**_without(given, option.name), option.name: _WRONG[option.kind]}))

    @proves(THE_SIDE)
    def test_a_missing_option_is_told(self, given: Mapping[str, str]) -> None:
        """Purpose: what is needed and was not given is named.

        Steps: each required option is left out.
        Pass: BadConfigurationError that names it.
        If it fails: declare it with required=True.
        """
        for option in self._option_set():
            if option.required:
                with pytest.raises(BadConfigurationError, match=option.name):
                    self._create(self._parse(_without(given, option.name)))

    @proves(THE_SIDE)
    def test_options_take_effect_or_are_refused(
        self, given: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Purpose: a user who sets an option has decided something.

        Steps: each option with what it needs, and random combinations, for a batch and for a stream.
        Pass: a refusal in at most two lines that names one of the options; or each of them makes a difference to the
        source or the sink that is made, or is warned of.
        If it fails: declare what the option needs, or keep it in what is made. ``option_examples`` holds values of
        options whose kind does not say which they take: an empty list leaves the option out.
        """
        monkeypatch.chdir(tmp_path)  # what is made may create what an option names
        cases = OptionCases(self._option_set(), self._create, given, self.option_examples)
        chosen = Random(7)
        problems = []
        for mode in ("batch", "stream"):
            least = [cases.least(option, mode) for option in self._option_set() if cases.texts(option)]
            for texts in [*least, *(cases.drawn(chosen.choice) for _ in range(_COMBINATIONS))]:
                shrug = cases.shrug(texts, mode)
                if shrug is not None and shrug not in problems:
                    problems.append(shrug)
        assert not problems, "; ".join(problems)

    @proves(THE_SIDE)
    def test_secrets_are_never_shown(self, given: Mapping[str, str]) -> None:
        """Purpose: passwords must not end up in logs, offsets or error texts.

        Steps: every option that is declared secret is given a value that is searched for in what is printed of the
        options and of what is made of them.
        Pass: it is nowhere.
        If it fails: leave secret fields out of the repr (dataclasses.field(repr=False)).
        """
        for option in self._option_set():
            if not option.secret:
                continue
            texts = {**given, option.name.replace("*", "password"): _SECRET}
            try:
                options = self._parse(texts)
                shown = f"{options!r} {options} {self._create(options)!r}"
            except PenstockError as error:
                shown = f"{error} {error!r}"
            assert _SECRET not in shown, f"the value of '{option.name}' is shown"

    # --- what is stored -----------------------------------------------------------------------------------------------

    @proves(THE_SIDE)
    def test_older_stored_forms_open(self, given: Mapping[str, str]) -> None:
        """Purpose: a checkpoint of an earlier release opens in this one.

        Steps: for every version below a serializer's own, the form that is kept in ``golden`` is opened, and written
        and opened again in the form of today.
        Pass: both give the same value.
        If it fails: deserialize must know every version that was ever released; keep a file of each.
        """
        for name, serializer in self._serializers(self._create(self._parse(given))).items():
            for version in range(1, serializer.version):
                path = (self.golden or Path("golden")) / f"{name}-v{version}.json"
                assert self.golden is not None and path.exists(), (
                    f"{path.name} is missing: {name} is at version 2 or later"
                )
                stored = Versioned.from_json(json.loads(path.read_text()))
                assert stored.version == version
                value = serializer.unpack(stored)
                assert serializer.unpack(serializer.pack(value)) == value

    @proves(THE_SIDE)
    def test_a_newer_stored_form_is_refused(self, given: Mapping[str, str]) -> None:
        """Purpose: a checkpoint of a later release is not misread after a downgrade.

        Steps: a form that says that it is of the next version is opened.
        Pass: FatalError, and not BadDataError: nothing is damaged, and a copy is of no help.
        If it fails: check the version before the bytes are looked at.
        """
        for serializer in self._serializers(self._create(self._parse(given))).values():
            with pytest.raises(FatalError) as refused:
                serializer.deserialize(serializer.version + 1, b"{}")
            assert not isinstance(refused.value, BadDataError), f"the version was not looked at: {refused.value}"


def _without(given: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: text for key, text in given.items() if key.lower() != name.lower()}
