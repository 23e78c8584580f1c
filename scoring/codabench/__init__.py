"""The tournament as a Codabench competition."""
