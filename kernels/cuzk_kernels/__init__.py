"""A Groth16 prover whose every stage is traced."""
