"""Programs of corrected losses in scores: what a record sums, and what each statistic of the noise gives to it."""
