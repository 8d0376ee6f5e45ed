"""Many runs of one system: what is varied, what is measured, and a record that survives."""
