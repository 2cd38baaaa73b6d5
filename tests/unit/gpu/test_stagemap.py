"""Names and the stage map, on the real kernels of sppark, ICICLE and PyTorch, and on those of other libraries."""
# ruff: noqa: E501

import subprocess
from pathlib import Path

import pytest
from gpu_cases import capture

from cuzk_top import stagemap, stages
from cuzk_top.demangle import readable
from cuzk_top.errors import InputError


def kernels(name: str) -> set[str]:
    return {record["name"] for record in capture(name) if record["kind"] == "kernel"}


def mapped(name: str) -> dict[str, stagemap.Place]:
    rules = stagemap.StageMap(stagemap.shipped())
    names = [readable(mangled) for mangled in kernels(name)]
    rules.see(names)
    return {text: rules.kernel(text) for text in names}


@pytest.mark.parametrize(("name", "library"), [("sppark-g1", "sppark"), ("icicle", "icicle")])
def test_every_kernel_of_a_prover_has_its_lane_and_stage(name: str, library: str) -> None:
    places = mapped(name)
    assert {place.lane for place in places.values()} == {"msm"}
    assert {place.library for place in places.values()} == {library}
    assert all(place.stage.startswith("msm.") for place in places.values())


def test_stages_of_an_msm() -> None:
    found = {
        text.partition("<")[0].rpartition("::")[2]: place.stage for text, place in mapped("icicle").items()
    }
    assert found["split_scalars_kernel"] == "msm.digits"
    assert mapped("icicle")[next(t for t in mapped("icicle") if "Onesweep" in t)].stage == "msm.sort"
    assert found["accumulate_buckets_kernel"] == "msm.accumulate"
    assert found["final_accumulation_kernel"] == "msm.horner"
    found = {text.partition("<")[0]: place.stage for text, place in mapped("sppark-g1").items()}
    assert found == {
        "breakdown": "msm.digits",
        "sort": "msm.sort",
        "batch_addition": "msm.batch_addition",
        "accumulate": "msm.accumulate",
        "integrate": "msm.integrate",
    }


def test_kernels_of_programs_that_prove_nothing_keep_their_names() -> None:
    assert set(mapped("torch").values()) == {stagemap.OTHER}
    rules = stagemap.StageMap(stagemap.shipped())
    rules.see(["sort"])
    assert rules.kernel("sort") == stagemap.OTHER  # everybody's word, until sppark was seen
    assert rules.kernel("cub::detail::radix_sort::DeviceRadixSortHistogramKernel<int>") == stagemap.OTHER


@pytest.mark.parametrize(
    ("name", "lane", "stage"),
    [  # as these libraries' sources name them; seen through the compiler, so without parameters
        ("_GS_NTT<1, fr_t>", "ntt", "ntt.butterfly"),
        ("_CT_NTT<0, true, fr_t>", "ntt", "ntt.butterfly"),
        ("bit_rev_permutation_z<16u, fr_t>", "ntt", "ntt.bit_reversal"),
        ("LDE_spread_distribute_powers<fr_t>", "ntt", "ntt.coset"),
        ("coeff_wise_mult", "ntt", "quotient.pointwise"),
        ("sub_mult_with_constant", "ntt", "quotient.pointwise"),
        ("poseidon_hash_1_0<9>", "hash", "hash.poseidon"),
        ("poseidon_hash_3<12>", "hash", "hash.poseidon"),
        ("blstrs__g1__G1Affine_multiexp", "msm", "msm.accumulate"),
        ("POINT_multiexp", "msm", "msm.accumulate"),
        ("blstrs__scalar__Scalar_radix_fft", "ntt", "ntt.butterfly"),
        ("FIELD_radix_fft", "ntt", "ntt.butterfly"),
        ("blstrs__scalar__Scalar_mul_by_field", "ntt", "ntt.pointwise"),
        ("hash_preimages_8_standard", "hash", "hash.poseidon"),
        ("ntt::ntt64<Field<fp_config>, Field<fp_config> >", "ntt", "ntt.butterfly"),
        ("mxntt::reorder_digits_and_normalize_kernel<Field<fp_config>, Field<fp_config> >", "ntt", "ntt.bit_reversal"),
    ],
)  # fmt: skip
def test_kernels_of_other_libraries(name: str, lane: str, stage: str) -> None:
    rules = stagemap.StageMap(stagemap.shipped())
    rules.see([name])
    place = rules.kernel(name)
    assert (place.lane, place.stage) == (lane, stage)


def test_names_equal_those_of_the_platforms_own_tool() -> None:
    names = sorted(kernels("sppark-g1") | kernels("icicle") | kernels("torch"))
    try:
        plain = subprocess.run(
            ["c++filt", *names], capture_output=True, text=True, check=True
        ).stdout.splitlines()
    except FileNotFoundError:
        pytest.skip("no c++filt here")
    for mangled, full in zip(names, plain, strict=True):
        short = readable(mangled)
        if mangled.startswith("_Z"):
            function = full.removeprefix("void ").replace("(anonymous namespace)", "(anonymous)")
            assert function.startswith(short)
            rest = function[len(short) :]
            assert rest.startswith("(")
            assert rest.count("<") == rest.count(">") - rest.count("->")
        else:
            assert short == mangled


def test_names_that_are_not_cpp_stay() -> None:
    for name in ("scale", "memcpy.h2d.pinned", "_Zwrong", "", "msm.h", "_Z" + "x" * 5000):
        assert readable(name) == name
    assert readable("_Z3addILi1EEvPjj") == "add<1>"


def test_the_users_map_comes_first(tmp_path: Path) -> None:
    folder = tmp_path / "cuzk-top"
    folder.mkdir()
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert stagemap.user_file(env) == folder / "stages.toml"
    (folder / "stages.toml").write_text(
        "[[kernel]]\nmatch = '^breakdown<'\nlane = 'hash'\nstage = 'mine'\n"
        "[[range]]\nmatch = '^groth16'\nlane = 'proof'\nstage = 'prove'\n"
    )
    rules = stagemap.load(env)
    assert rules.kernel("breakdown<fr_t>") == stagemap.Place("hash", "mine", "stages")
    assert rules.range("groth16_prove") == stagemap.Place("proof", "prove", "stages")
    assert rules.range("something") is None
    assert stagemap.load({"HOME": str(tmp_path)}).kernel("breakdown<fr_t>").lane == "msm"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[kernel]]\nlane = 'msm'\n", "kernel rule 1 has no match"),
        ("[[kernel]]\nmatch = '('\n", "kernel rule 1: not a regular expression"),
        ("[[kernel]]\nmatch = 'a'\nlane = 'mms'\n", "no lane 'mms'; there are hash, msm, ntt, other"),
        ("[[range]]\nmatch = 'a'\nlane = 'gpu'\n", "range rule 1: no lane 'gpu'"),
        ("[[kernel]]\nmatch = 'a'\nlanes = 'msm'\n", "unknown key 'lanes'"),
        ("[kernel]\nmatch = 'a'\n", "[kernel] must be written [[kernel]]"),
        ("kernel = \n", "not a stage map"),
    ],
)
def test_a_wrong_map_is_said(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "stages.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        stagemap.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


def test_lanes_of_gpus_come_between_those_of_the_proof_and_the_rest() -> None:
    busy, msm = stages.lane_at(stages.gpu_place(0, "busy")), stages.lane_at(stages.gpu_place(11, "msm"))
    assert (busy.key, busy.label) == ("gpu0.busy", "0 busy")
    assert (msm.key, msm.label, msm.letter) == ("gpu11.msm", "11 msm", "M")
    assert stages.ORDER["verify"] < stages.gpu_place(0, "busy") < stages.gpu_place(65_535, "other")
    assert stages.gpu_place(65_535, "other") < stages.ORDER["other"] < stages.ORDER["overhead"]
    assert stages.lane("gpu11.msm", {}) == msm
    with pytest.raises(KeyError):
        stages.lane("gpu1.nothing", {})
