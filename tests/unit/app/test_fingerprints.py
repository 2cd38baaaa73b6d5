"""Fresh, stale or unknown: what is said of the kernels that ran."""

from cuzk_top import fingerprints


def test_a_program_that_says_nothing_is_not_known_to_be_fresh():
    assert fingerprints.stale({"backend": "gpu-cuda"}) is None


def test_units_whose_sources_changed_are_named():
    meta = {
        "kernels.fingerprint.bn254-g1": "aa", "kernels.sources.bn254-g1": "aa",
        "kernels.fingerprint.bn254-scalars": "bb", "kernels.sources.bn254-scalars": "cc",
        "kernels.fingerprint.bls12381-g1": "dd",
    }  # fmt: skip
    assert fingerprints.stale(meta) == ["bn254-scalars"]
    meta["kernels.sources.bn254-scalars"] = "bb"
    assert fingerprints.stale(meta) == []
