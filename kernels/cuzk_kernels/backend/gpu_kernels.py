"""The kernels of cuda/*.cu as the host sees them: units, signatures and the constants both sides share."""

# Arguments of every kernel: P a device address, I a u32.
SIGNATURES = {
    "accumulate": "PPPPIP",
    "merge_small": "PPP",
    "merge_chunks": "PPP",
    "merge_big": "PPP",
    "reduce_runs": "PIIP",
    "reduce_bits": "PIIIIP",
    "fixed_base": "PPIP",
    "check_points": "PIIPP",
    "field_operation": "IPPPI",
    "check_scalars": "PIP",
    "montgomery": "PPII",
    "product": "PPPI",
    "pointwise": "PPPPI",
    "count_coefficients": "PIIIPP",
    "place_coefficients": "PIIPPPP",
    "evaluate": "PPPPIPP",
    "digits": "PPIIIIIIPP",
    "scan_tiles": "PIIP",
    "scan_apply": "PIIPP",
    "scatter": "PIIIIPP",
    "count_lengths": "PIIP",
    "order_lengths": "PIP",
    "place_segments": "PPIIPPPPPP",
    "mark_points": "PIIP",
    "compact_points": "PIIPPP",
    "transform_down": "PPIPIIII",
    "transform_up": "PPIPIIII",
    "powers": "PIPPI",
    "reorder": "PI",
}

COUNTERS = 8  # Counter in cuda/unit.cuh
SEGMENT_BYTES = 16
SMALL_MERGE, CHUNK_LENGTH = 16, 256
LOG_ROOTS = 10  # log_roots in cuda/transform.cuh
CURVES = {"bn254": "Bn254", "bls12381": "Bls381"}


def unit_source(unit: str) -> tuple[str, list[str]]:
    """Source file and definitions of a unit: "bn254-scalars", "bls12381-g1", ..."""
    curve, part = unit.split("-")
    if part == "scalars":
        return "scalars.cu", [f"-DCUZK_CURVE={CURVES[curve]}"]
    return "points.cu", [f"-DCUZK_CURVE={CURVES[curve]}", f"-DCUZK_GROUP={part[1]}"]


UNITS = tuple(f"{curve}-{part}" for curve in CURVES for part in ("scalars", "g1", "g2"))
