"""What `penstock run --check` says of options comes from their declaration, at the place where they stand."""

from __future__ import annotations

from penstock.cli._check import check_pipeline

PIPELINE = """name: copy
source:
  format: penstock.filesystem
  schema: a int
  options:
    path: in
    format: json
    SEP: ';'
    sourceArchiveDir: done
sink:
  format: penstock.filesystem
  options:
    path: out
    rollOnCheckpoint: true
    maxOpenChunks: 8
    rollingPolicy: job:Policy
checkpoint: ck
"""


def test_rules_are_checked_in_the_file(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE)
    _, mistakes = check_pipeline(path, {})
    assert [str(mistake) for mistake in mistakes] == [
        "8:10: warning: source penstock.filesystem ignores 'sep': it takes effect only with format=csv, and format is "
        "json",
        "9:23: option 'sourceArchiveDir' takes effect only with cleanSource=archive, and cleanSource is off: leave it "
        "out, or set that as well",
        "14:23: option 'rollOnCheckpoint' takes effect only with rollingPolicy=default, and "
        "rollingPolicy is job:Policy: leave it out, or set that as well",
        "15:20: option 'maxOpenChunks' can't be used with rollOnCheckpoint=true: leave one of them out",
    ]


def test_a_warning_leaves_the_file_usable(tmp_path, capsys):
    from penstock.cli._run import RunChoices, run

    path = tmp_path / "pipeline.yaml"
    good = [line for line in PIPELINE.splitlines() if "Archive" not in line and "roll" not in line]
    path.write_text("\n".join(good))
    assert run(path, RunChoices(check_only=True)) == 0
    shown = capsys.readouterr()
    assert "warning: source penstock.filesystem ignores 'sep'" in shown.err and "no mistakes found" in shown.out


def test_options_for_dead_letters_are_checked_by_their_own_declaration(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "name: copy\nsource:\n  format: penstock.filesystem\n  schema: a int\n"
        "  options: {path: in, format: json}\nsink:\n"
        "  format: penstock.filesystem\n  options:\n    path: out\n    deadLetters.format: kafka\n"
        "    deadLetters.topci: bad\ncheckpoint: ck\n"
    )
    _, mistakes = check_pipeline(path, {})
    assert len(mistakes) == 1
    assert "no option 'deadLetters.topci'; did you mean 'deadLetters.topic'?" in str(mistakes[0])
