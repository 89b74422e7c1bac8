import pytest

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.compact.options import CompactionOptions, resolve_options
from lance_ops.maintenance.compact.recorded import options_digest, options_of, options_values


def test_the_caller_wins_over_the_config_and_the_config_over_the_defaults():
    config = {
        "lance.compaction.target_rows_per_fragment": "500",
        "lance.compaction.materialize_deletions": "False",
        "lance.compaction.materialize_deletions_threshold": " 0.25 ",
        "lance.compaction.max_source_bytes": "1000000",
        "lance.auto_cleanup.interval": "20",
        "owner": "us",
    }
    options, warnings = resolve_options(config, {"target_rows_per_fragment": 7, "batch_rows": None})
    assert warnings == ()
    assert options == CompactionOptions(
        target_rows_per_fragment=7,
        materialize_deletions=False,
        materialize_deletions_threshold=0.25,
        max_source_bytes=1_000_000,
    )


def test_a_strategy_sets_the_default_of_tiers_and_bytes_and_neither_overrides_what_is_given():
    usual = CompactionOptions()
    assert (usual.growth, usual.target_bytes) == (8, 512_000_000)
    assert usual.rule == "size tiers of 8, up to 1,048,576 rows or 512 MB"
    rows, _ = resolve_options({"lance.compaction.strategy": "rows"})
    assert (rows.growth, rows.target_bytes) == (None, None)
    assert rows.rule == "all small neighbours, up to 1,048,576 rows"
    given, _ = resolve_options({"lance.compaction.strategy": "rows"}, {"tier_growth": 4})
    assert (given.growth, given.target_bytes) == (4, None)
    tiers, _ = resolve_options({"lance.compaction.strategy": "rows"}, {"strategy": "tiers"})
    assert tiers == usual
    with pytest.raises(InvalidArgumentError, match="strategy must be one of tiers, rows"):
        CompactionOptions(strategy="bytes")


def test_jobs_of_releases_without_strategies_go_on_by_the_rule_of_rows():
    before = {"target_rows_per_fragment": 7, "target_bytes_per_fragment": None, "tier_growth": None}
    assert options_of(before) == CompactionOptions(target_rows_per_fragment=7, strategy="rows")
    assert options_of(options_values(CompactionOptions())) == CompactionOptions()
    digests = {options_digest(CompactionOptions(strategy=name)) for name in ("tiers", "rows")}
    assert len(digests) == 2


def test_options_of_the_peer_alone_are_passed_over_and_unknown_ones_warned_of():
    config = {"lance.compaction.compaction_mode": "reencode", "lance.compaction.target_rows": "5"}
    options, warnings = resolve_options(config)
    assert options == CompactionOptions()
    assert warnings == ("unknown option 'lance.compaction.target_rows' in the table's config is ignored",)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("target_rows_per_fragment", "many"),
        ("materialize_deletions", "yes"),
        ("materialize_deletions_threshold", ""),
    ],
)
def test_a_config_value_that_cannot_be_read_names_its_key(key, text):
    with pytest.raises(InvalidArgumentError) as caught:
        resolve_options({f"lance.compaction.{key}": text})
    assert caught.value.field == f"lance.compaction.{key}"


@pytest.mark.parametrize(
    "options",
    [
        {"target_rows_per_fragment": 0},
        {"max_bytes_per_file": 0},
        {"max_source_fragments": 0},
        {"max_source_rows": 0},
        {"max_source_bytes": 0},
        {"batch_rows": 0},
        {"commit_every": 0},
        {"materialize_deletions_threshold": -0.1},
        {"materialize_deletions_threshold": float("nan")},
    ],
    ids=str,
)
def test_values_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        CompactionOptions(**options)


def test_a_threshold_of_one_or_more_turns_materialisation_off():
    assert CompactionOptions(materialize_deletions_threshold=0.99).purges_deletions
    assert not CompactionOptions(materialize_deletions_threshold=1.0).purges_deletions
    assert not CompactionOptions(materialize_deletions=False).purges_deletions


def test_a_version_of_data_files_is_one_that_exists_and_a_migration_names_one():
    assert CompactionOptions(data_storage_version="stable").data_storage_version == "2.2"
    with pytest.raises(InvalidArgumentError, match="data_storage_version"):
        CompactionOptions(data_storage_version="7.1")
    with pytest.raises(InvalidArgumentError, match="migrate requires data_storage_version"):
        CompactionOptions(migrate=True)
    options, warnings = resolve_options({"lance.compaction.data_storage_version": "2.1"})
    assert (options.data_storage_version, options.migrate, warnings) == ("2.1", False, ())
