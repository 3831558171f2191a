"""From a CSV file with texts and missing values to a corrected fit, step by step, beside the fit on true records.

    SYMDEBIAS_DATA=folder python examples/own_csv.py [--epsilon 4] [--draws 1] [--seed 0] [--folder here]

The file is UCI Adult as it was published, with a line of names before it: 48,842 people, `?` where a value is missing.
The collector writes a schema, releases the records with the whole budget on one vector, and saves them with their card;
the analyst loads the folder and fits the log loss. Coefficients are in years, hours and categories. The last columns
are the fit on the true records, and how many standard errors the two are apart. More draws show how both scatter. With
--folder the table, as adult.csv, the schema, as adult.toml, and the released folders are kept there.
"""

import argparse
import gzip
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import symdebias as sd
from symdebias.solvers.coefficients import Coefficients

NAMES = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,capital-gain,"
    "capital-loss,hours-per-week,native-country,income"
)
SCHEMA = """\
epsilon = {epsilon}
loss = "logistic"
missing = ["?"]
norm = 1.0

[columns]
age = {{ bounds = [17, 75] }}
hours-per-week = {{ bounds = [10, 80] }}
workclass = {{ categories = ["Private", "other"], other = "other", fill = "Private" }}

[target]
name = "income"
categories = ["<=50K", ">50K"]
"""


def write_adult(path: Path, data: Path, records: int | None = None) -> None:
    """Write Adult as one CSV file with names in its first line."""
    lines = [NAMES]
    for name in ("adult.data", "adult.test"):
        packed = data / f"{name}.gz"
        text = gzip.decompress(packed.read_bytes()).decode() if packed.exists() else (data / name).read_text()
        lines += [line.rstrip(".") for line in text.splitlines() if line.strip() and not line.startswith("|")]
    path.write_text("\n".join(lines[: None if records is None else records + 1]) + "\n")


def fit_of_true_records(schema: sd.Schema, X, y) -> sd.Fit:
    """Fit the true records, clipped to the bounds of the schema, in the same columns."""
    release = sd.Release.from_schema(schema)
    clipped = {
        column.name: X[column.name] if column.bounds is None else np.clip(X[column.name], *column.bounds)
        for column in schema.columns
    }
    as_they_are = sd.Release(
        noiseless=list(clipped),
        fit_intercept=True,
        categories=release.categories.as_json(),
        center=dict(release.center),
        scale=dict(release.scale),
    )
    open_records = as_they_are.privatize(type(X)(clipped), y)
    return sd.m_estimate(sd.debias(getattr(sd.losses, schema.loss)(), as_they_are), open_records.X, open_records.y)


def report(table: Path, folder: Path, *, epsilon: float = 4.0, draws: int = 1, seed: int | None = None) -> str:
    """Return the table of coefficients, after the steps with their seconds."""
    (folder / "adult.toml").write_text(SCHEMA.format(epsilon=epsilon))
    schema = sd.Schema(folder / "adult.toml")
    lines = [f"epsilon {epsilon:g}, pure, of a whole record"]
    seconds = {}
    for draw in range(draws):
        began = time.perf_counter()
        X, y = schema.collect(table)
        seconds["read"] = time.perf_counter()
        random_state = None if seed is None else seed + draw
        noised = sd.Release.from_schema(schema).privatize(X, y, random_state=random_state)
        noised.save(folder / f"released-{draw}", target_name=schema.target.name, labels=schema.labels)
        seconds["release"] = time.perf_counter()
        again = sd.load(folder / f"released-{draw}")
        corrected = sd.debias(getattr(sd.losses, schema.loss)(), again.release)
        try:
            fit = sd.m_estimate(corrected, again.X, again.y)
        except sd.DivergenceError as error:
            lines.append(f"draw {draw}: {error}")
            continue
        seconds["fit"] = time.perf_counter()
        if draw == 0:
            truth = fit_of_true_records(schema, X, y)
            steps = np.diff([began, *seconds.values()])
            lines.append(", ".join(f"{name} {one:.1f} s" for name, one in zip(seconds, steps, strict=True)))
            lines.append(f"{len(y):,} records; per unit of each column:")
            lines.append(f"  {'':<18}{'corrected':>11}{'std err':>10}{'true records':>14}{'apart':>8}")
        # What `Fit.summary_frame` returns as a table of pandas, which this script does not need.
        found = Coefficients.of(fit, 0.95, original_units=True)
        rows = zip(fit.names, found.values, found.errors, truth.coefficients, strict=True)
        lines += [
            f"  {name:<18}{value:>11.4f}{error:>10.4f}{true:>14.4f}{(value - true) / error:>8.1f}"
            for name, value, error, true in rows
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument(
        "--seed", type=int, default=None, help="for repeatable examples; without it the noise is private"
    )
    parser.add_argument("--folder", type=Path, default=None, help="keep the files here; by default they are deleted")
    options = parser.parse_args()
    data = os.environ.get("SYMDEBIAS_DATA")
    if data is None:
        parser.error("set SYMDEBIAS_DATA to the folder of UCI Adult (adult.data and adult.test, or .gz)")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if options.folder is None else options.folder
        folder.mkdir(exist_ok=True)
        write_adult(folder / "adult.csv", Path(data))
        print(report(folder / "adult.csv", folder, epsilon=options.epsilon, draws=options.draws, seed=options.seed))


if __name__ == "__main__":
    main()
