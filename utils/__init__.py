"""What a submission may import: the 2020 module names, kept, and the few helpers our methods share."""
