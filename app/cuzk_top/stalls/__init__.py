"""Why a proof waited: pure functions of a snapshot and a window."""
