"""The mistakes that users make most: what each one is told, in Python and on the command line.

A message says what was given, what is allowed and what to do, and never shows a value of the records. On the command
line it is one message without a traceback, and an exit code: 1 where it could not be done, 2 where the words are none.
"""

# ruff: noqa: E501 (a mistake is a line of the table)

import re
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sympy as sp
from scipy import sparse

import symdebias as sd
from symdebias.interfaces import cli

SECRET = "plague"
SCHEMA = """
epsilon = 4.0
missing = ["?"]
[columns]
age = { bounds = [17, 90] }
work = { categories = ["private", "state"] }
[target]
name = "income"
categories = ["low", "high"]
"""
PEOPLE = "age,work,income\n" + "39,private,low\n50,state,high\n" * 10


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table, schemas and releases of it."""
    folder = tmp_path_factory.mktemp("mistakes")
    files = {
        "schema.toml": SCHEMA,
        "typo.toml": SCHEMA.replace("epsilon", "epslion"),
        "inverted.toml": SCHEMA.replace("[17, 90]", "[90, 17]"),
        "nothing.toml": SCHEMA.replace("4.0", "0"),
        "bare.toml": SCHEMA.replace("{ bounds = [17, 90] }", "{}"),
        "margin.toml": SCHEMA.replace("epsilon", 'loss = "logistic"\nepsilon'),
        "capital.toml": SCHEMA.replace("age =", "Age ="),
        "count.toml": SCHEMA.replace("epsilon", 'loss = "poisson"\nepsilon'),
        "date.toml": SCHEMA.replace("[17, 90]", "[1990-01-01, 2020-12-31]"),
        "true.toml": SCHEMA.replace('["private", "state"]', "[true, false]"),
        "letters.toml": SCHEMA.replace('["private", "state"]', '"private"'),
        "broken.toml": SCHEMA.replace("[columns]", "[columns"),
        "people.csv": PEOPLE,
        "notes": "mine",
        "open.csv": PEOPLE.replace("50", '"50', 1),
        "semicolons.csv": PEOPLE.replace(",", ";"),
        "headless.csv": f"39,{SECRET},low\n50,state,high\n",
        "missing.csv": PEOPLE.replace("50,state", "50,?", 1),
        "words.csv": PEOPLE.replace("50", "fifty", 1),
        "capitals.csv": PEOPLE.replace("state", "State", 1),
        "thousands.csv": PEOPLE.replace("50", '"1,050.5"', 1),
        "western.csv": PEOPLE.replace("private", "privé"),
        "twice.csv": PEOPLE.replace("work", "age", 1),
        "empty.csv": "",
        "names.csv": "age,work,income\n",
        "undeclared.csv": PEOPLE.replace("state", SECRET, 1),
        "cents.csv": PEOPLE.replace("39", "3900").replace("50", "5000"),
        "short.csv": PEOPLE + "39,private\n",
        "card.json": "{}",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="latin-1" if name == "western.csv" else "utf-8")
    for name in ("schema", "margin"):
        schema = sd.Schema(folder / f"{name}.toml")
        noised = sd.Release.from_schema(schema).privatize(*schema.collect(folder / "people.csv"))
        noised.save(folder / f"released-{name}", target_name="income", labels=schema.labels)
    (folder / "fit.npz").write_bytes(b"PK\x03\x04\xf7\xff")
    sd.Ledger(folder / "spent.jsonl", "panel", total=sd.Guarantee(1.0, 0.0))
    return folder


PRIVATIZE = "privatize {}/people.csv --schema {}/schema.toml --out {}/new"
COMMANDS = [
    # The words.
    ("a command that is none", "privatise table.csv", 2, "invalid choice: 'privatise'.*'privatize'"),
    ("no command", "", 2, "arguments are required: COMMAND"),
    ("an option that is cut short", PRIVATIZE + " --see 1", 2, "unrecognized arguments: --see"),
    ("an option that is none", PRIVATIZE + " --sede 1", 2, "unrecognized arguments: --sede"),
    ("no schema", "privatize {}/people.csv --out {}/new", 2, "required: --schema"),
    ("no loss", "fit {}/released-schema", 2, "required: --loss"),
    ("a loss that is none", "fit {}/released-schema --loss logit", 2, "invalid choice: 'logit' is called 'logistic' here"),
    ("a loss of another planet", "fit {}/released-schema --loss cubic", 2, "invalid choice: 'cubic'.*'logistic'"),
    ("arguments of a loss without", "fit {}/released-schema --loss logistic --arguments 2", 1, "logistic takes no --arg"),
    ("an unknown name in a loss", "fit {}/released-schema --loss exp(-y*x)", 1, "the name x, which was not declared. It may"),
    ("a loss that is no expression", "fit {}/released-schema --loss exp(-y*u", 1, "is no expression: its parentheses or"),
    ("arguments of an expression", "fit {}/released-schema --loss (y-u)^2 --arguments 2", 1, "Write the numbers into the ex"),
    ("too many arguments", "fit {}/released-schema --loss huber --arguments 1,2", 1, "takes threshold, .* has 2 numbers. Gi"),
    ("no level", "fit {}/released-schema --loss expectile", 1, "takes level, and --arguments has 0 numbers. Give 1, as"),
    ("a quantile in percent", "fit {}/released-schema --loss quantile --arguments 90", 1, "level=90.0 is too large"),
    ("a number that is none", "plan --loss logistic --theta 1;2 --epsilon 1 --records 9", 2, "no list of numbers; write"),
    ("neither records nor errors", "plan --loss logistic --columns 2 --epsilon 1", 2, "--standard-error --records is"),
    ("no columns to plan", "plan --loss logistic --epsilon 1 --records 9", 1, "give --columns or --theta"),
    ("no budget to plan", "plan --loss logistic --columns 1 --records 9", 1, "--epsilon was not given. Give it, or a"),
    ("two plans", "plan --schema {}/schema.toml --columns 2 --records 9", 1, "--columns does not go with --schema"),
    # Files.
    ("no table", "privatize {}/none.csv --schema {}/schema.toml --out {}/new", 1, r"none\.csv is not there\. Name a file"),
    ("no such schema", "privatize {}/people.csv --schema {}/none.toml --out {}/new", 1, "the schema .* is not there. Name"),
    ("a folder that is there", "privatize {}/people.csv --schema {}/schema.toml --out {}", 1, "nothing is overwritten. Na"),
    ("no such folder", "fit {}/none --loss logistic", 1, "none is not there. Name the folder that"),
    ("a folder of something else", "fit {} --loss logistic", 1, "no file manifest.json. Ask for the whole folder"),
    ("no such fit", "evaluate {}/none.npz {}/released-schema --metric accuracy", 1, "none.npz is not there. Name the file that symdebias fit --save"),
    ("no such card", "audit {}/none.json", 1, "none.json: No such file.*Name a file"),
    ("a card that is none", "audit {}/card.json", 1, r"\.(json|csv): this is not a release card .* Name the file with a card, or a rel"),
    # Schemas.
    ("a misspelled entry", "privatize {}/people.csv --schema {}/typo.toml --out {}/new", 1, "unknown entry 'epslion'. Its"),
    ("bounds in the wrong order", "privatize {}/people.csv --schema {}/inverted.toml --out {}/new", 1,
     r"columns\.age\.bounds=\(90\.0, 17\.0\) are not in order\. The first"),
    ("no bounds", "privatize {}/people.csv --schema {}/bare.toml --out {}/new", 1, "age has neither bounds nor categories. G"),
    ("no budget", "privatize {}/people.csv --schema {}/nothing.toml --out {}/new", 1, "epsilon=0 is too small. It must be"),
    ("no TOML", "privatize {}/people.csv --schema {}/broken.toml --out {}/new", 1, "broken.toml is not a TOML file: .*at line"),
    # Tables.
    ("no names of columns", "privatize {}/headless.csv --schema {}/schema.toml --out {}/new", 1,
     "no column named age, work, income; it has 3 columns. The first line of the file names the columns: add"),
    ("semicolons", "privatize {}/semicolons.csv --schema {}/schema.toml --out {}/new", 1, "not divided by commas but by semicolons: save it"),
    ("a line that is too short", "privatize {}/short.csv --schema {}/schema.toml --out {}/new", 1, "line 22 of short.csv has 2"),
    ("a missing value", "privatize {}/missing.csv --schema {}/schema.toml --out {}/new", 1,
     r"work is missing in row 1 \(line 3 of missing.csv\). Each record needs a value.*fill"),
    ("a word for a number", "privatize {}/words.csv --schema {}/schema.toml --out {}/new", 1,
     r"age is no finite number in row 1 \(line 3"),
    ("an undeclared category", "privatize {}/undeclared.csv --schema {}/schema.toml --out {}/new", 1,
     r"work has a value in row 1 .* that was not declared. Its categories are private, state: declare"),
    ("other units", "privatize {}/cents.csv --schema {}/schema.toml --out {}/new", 1,
     "all 20 records lie outside the declared bounds of age.*declare public ones.*or pass --outside clip-all where"),
    ("records that are not to be clipped", "privatize {}/cents.csv --schema {}/schema.toml --out {}/new --outside refuse", 1,
     r"20 of 20 records lie outside.*Declare wider public bounds, or pass --outside clip\.$"),
    # Budgets.
    ("a spent budget", PRIVATIZE + " --ledger {}/spent.jsonl --population panel", 1, "epsilon"),
    ("a ledger of nobody", PRIVATIZE + " --ledger {}/spent.jsonl", 1, "Give its name by --population"),
    ("a population misspelled", PRIVATIZE + " --ledger {}/spent.jsonl --population pannel", 1,
     "no total for --population 'pannel', but for 'panel'. Correct the name, or declare a total by --total EPSILON"),
    ("a population misspelled with a total", PRIVATIZE + " --ledger {}/spent.jsonl --population pannel --total 9", 1,
     "no total for --population 'pannel', but for 'panel'.*mistyped.*correct it, or name those there are by --others"),
    ("others without a ledger", PRIVATIZE + " --others panel", 1, "belong to --ledger. Give the file"),
    ("a population without a ledger", PRIVATIZE + " --population panel", 1, "belong to --ledger. Give the file"),
    ("a seed in a ledger", PRIVATIZE + " --ledger {}/spent.jsonl --population panel --seed 1", 1, "asks for a seed.*Leave"),
    # Fits.
    ("another target", "fit {}/released-schema --loss logistic --target age", 1,
     "age was released with center= and scale=, which a target has not.*outcome = true"),
    ("a target that is none", "fit {}/released-schema --loss logistic --target inc", 1,
     "--target 'inc' is no column of this folder: its target is called income, and the columns are age, work. Correct the"),
    ("a target beside a vector", "fit {}/released-margin --loss logistic --target age", 1, "in one vector, for that target al"),
    ("features of the folder's target", "fit {}/released-schema --loss logistic --features age", 1, "belongs to a --target"),
    ("a loss that the release cannot answer", "fit {}/released-margin --loss poisson", 1, "no margin loss.*Use one of these"),
    ("a level of the loss in percent", "fit {}/released-schema --loss quantile --arguments 90", 1,
     r"--arguments of --loss quantile: level=90\.0 is too large"),
    ("several classes of two", "derive softmax", 1, "several scores, and one expression is shown. In Python"),
    ("a level in percent", "fit {}/released-schema --loss logistic --level 95", 1, "--level=95.0 is too large. It must be"),
    ("no folder for the fit", "fit {}/released-schema --loss logistic --save {}/no/fit.npz", 1, "the folder .*/no is not there. Make"),
    ("a fit in place of the schema", "fit {}/released-schema --loss logistic --save {}/schema.toml", 1,
     r"schema\.toml would be a saved fit, and its name ends with \.toml. Name a file that ends with \.npz"),
    ("predictions in place of the table", "predict {}/none.npz {}/people.csv --out {}/people.csv", 1, "is not a file of predictions: n"),
    ("predictions in a workbook", "predict {}/none.npz {}/people.csv --out {}/out.xlsx", 1, r"ends with \.xlsx. Name a file that ends w"),
    ("a page in place of a table", "report {}/none.npz {}/released-schema --out {}/people.csv", 1, "would be a page of HTML, and its name"),
    ("a picture in place of a table", "plan --loss logistic --columns 2 --epsilon 4 --records 9 --plot {}/people.csv", 1,
     r"people\.csv would be a picture in PNG, and its name ends with \.csv. Name a file that ends with \.png"),
    ("a demonstration in another format", "demo --output {}/picture.jpg", 1, r"ends with \.jpg. Name a file that ends with \.png"),
    ("a fit in place of what has no kind by its name", "fit {}/released-schema --loss logistic --save {}/notes", 1,
     "notes is a file, and is not a saved fit: nothing else is overwritten. Name another file"),
    ("a ledger without a folder", PRIVATIZE + " --ledger {}/no/l.jsonl --population p --total 9", 1, "the folder .*/no is not there. Make"),
    ("a command that is mistyped", "fitt {}/released-schema", 2, "invalid choice: 'fitt'. Is fit meant. .choose from"),
    ("a mistyped option for one that is needed", "fit {}/released-schema --los logistic", 2, "unrecognized arguments: --los. Is --loss meant"),
    ("the option of another command", "fit {}/released-schema --loss logistic --out fit.npz", 2, "arguments: --out. Is --save meant"),
    ("an option for a place", "derive --loss logistic", 2, "arguments: --loss. LOSS is given by itself, without --loss"),
    ("an option that is like none", "fit {}/released-schema --loss logistic --fit x", 2, "unrecognized arguments: --fit$"),
    ("a quote that is open", "privatize {}/open.csv --schema {}/schema.toml --out {}/new", 1,
     "the record in lines 3 to 21 of open.csv has 1 value, .* quote in line 3 that is not closed there"),
    ("a page in place of a folder", "report {}/none.npz {}/released-schema --out {}", 1, "is a folder. Name a file"),
    ("a rate that is none", "audit {}/released-schema --false-alarm 2", 1, "--false-alarm=2.0 is too large.*Give a small"),
    ("columns without end", "plan --loss logistic --columns 100000 --epsilon 4 --records 9", 1, "is more than 300.*Plan for fewer"),
    ("a negative spread", "plan --loss logistic --columns 2 --epsilon 4 --records 9 --spread -1", 1, "--spread=-1.0 is too small"),
    ("another shell", "completion fish", 2, "invalid choice: 'fish'.*'zsh'"),
    # Further ones of a first day.
    ("an option in the place of a command", "-v", 2, "arguments are required: COMMAND"),
    ("a schema by its data", "plan --schema {}/people.csv --records 9", 1, r"people\.csv is not a TOML file.*key = value"),
    ("dates as bounds", "plan --schema {}/date.toml --records 9", 1, "has the type date. It must be a number"),
    ("true and false as categories", "plan --schema {}/true.toml --records 9", 1, 'are no texts and no numbers. Give .*"False", "True"'),
    ("a text as categories", "plan --schema {}/letters.toml --records 9", 1, "is one text. Give a list of two or more"),
    ("a loss of counts for labels", "privatize {}/people.csv --schema {}/count.toml --out {}/new", 1,
     "'poisson' is one of counts.*the two categories of the target.*choose a loss of labels, such as"),
    ("another intercept than the schema's", "plan --schema {}/margin.toml --records 9 --intercept", 1,
     "--intercept does not go with --schema, which says what is collected.*Leave"),
    ("a picture of one release", "plan --schema {}/margin.toml --records 9 --plot p.png", 1, "--plot does not go with --schema"),
    ("a budget that is none", "plan --schema {}/margin.toml --records 9 --epsilon -1", 1, "epsilon=-1.0 is too small"),
    ("a number without bounds", "plan --loss least_squares --columns 2 --epsilon 4 --records 9", 1,
     "the target of least-squares is a number.*--target-bounds -5,5, or.*--public-target"),
    ("a target that is public after all", "plan --schema {}/margin.toml --records 9 --public-target", 1, "--public-target does"),
    ("fewer than no records", "plan --loss logistic --columns 1 --epsilon 4 --records -5", 1,
     "--records=-5.0 is too small.*Give a positive number, such as 10000 records"),
    ("no error at all", "plan --loss logistic --columns 1 --epsilon 4 --standard-error 0", 1, "--standard-error=0.0 is too small"),
    ("a name in other capitals", "privatize {}/people.csv --schema {}/capital.toml --out {}/new", 1,
     "no column named Age; it has 3 columns. Names are matched letter by letter, and Age differs in capitals: correct"),
    ("a category in other capitals", "privatize {}/capitals.csv --schema {}/schema.toml --out {}/new", 1,
     "work has a value in row 1.*not declared.*differs from one of them in its capitals; declare"),
    ("thousands divided by commas", "privatize {}/thousands.csv --schema {}/schema.toml --out {}/new", 1,
     r"age is no finite number in row 1 \(line 3.*numbers are written as 1234\.5, and dates are none"),
    ("another encoding", "privatize {}/western.csv --schema {}/schema.toml --out {}/new", 1, "not text in UTF-8. Save it as CSV in"),
    ("two columns of a name", "privatize {}/twice.csv --schema {}/schema.toml --out {}/new", 1, "two columns named age. Give each"),
    ("an empty file", "privatize {}/empty.csv --schema {}/schema.toml --out {}/new", 1, "is empty. Its first line names the col"),
    ("names alone", "privatize {}/names.csv --schema {}/schema.toml --out {}/new", 1, "no record. Add a line for each record"),
    ("an address as a file", "privatize http://example.org/a.csv --schema {}/schema.toml --out {}/new", 1, "is not there. Name"),
    ("a ledger without the population", "ledger {}/spent.jsonl --population pannel", 1,
     "no total for the population 'pannel'. Check the name: without --population all are printed"),
    ("a ledger that is not there", PRIVATIZE + " --ledger {}/none.jsonl --population panel", 1,
     "there is no ledger at .*none.jsonl. Name the one there is, or begin it by --total EPSILON"),
    ("a total of nothing", PRIVATIZE + " --ledger {}/none.jsonl --population panel --total 0", 1, "--total=0.0 is too small.*budget"),
    ("a negative seed", PRIVATIZE + " --seed -1", 1, "--seed=-1 is negative. Use a seed of zero or more"),
    ("a fit as a folder", "fit {}/card.json --loss logistic", 1, "not a folder of the format.*Ask for the whole folder"),
    ("fit and folder exchanged", "evaluate {}/released-schema {}/none.npz --metric accuracy", 1, "is no file. Ask for the file that symdebias fit --save w"),
    ("a metric that is none", "evaluate {}/none.npz {}/released-schema --metric acc", 2, "invalid choice: 'acc'. Here it is called accuracy"),
    ("a penalty below zero", "fit {}/released-schema --loss logistic --l2 -1", 1, r"--l2=-1.0 is too small. It must be a number in \[0"),
    ("a method that is none", "fit {}/released-schema --loss logistic --method magic", 1, "--method 'magic' is not known. Choose one of auto"),
    ("records of an audit", "audit {}/people.csv", 1, r"\.(json|csv): this is not a release card .* Name the file with a card, or a rel"),
    ("too few draws", "audit {}/released-schema --samples 10", 1, "--samples=10 is too small. It must be an integer of at least"),
    ("a fit as a card", "audit {}/fit.npz", 1, "fit.npz is no text, and a card is. Name the file with the output"),
    ("a fit to compile", "compile {}/fit.npz --loss logistic", 1, "fit.npz is no text, and a card is. Name the file"),
    ("a total below the release", PRIVATIZE + " --ledger {}/none.jsonl --population panel --total 3.9", 1,
     "release is epsilon 4, delta 0, more than the total.*no total declared. Give a larger"),
    ("a total for records that are refused", "privatize {}/cents.csv --schema {}/schema.toml --out {}/new --outside refuse "
     "--ledger {}/none.jsonl --population panel --total 9", 1, "lie outside the declared bounds"),
    ("a total for a seed", PRIVATIZE + " --seed 1 --ledger {}/none.jsonl --population panel --total 9", 1, "asks for a seed"),
    ("records as a ledger", "ledger {}/people.csv", 1, "people.csv is another file, and no ledger: it has no line of one"),
    ("a division by zero", "derive 1/0", 1, "'1/0' is no real expression, as where it divides by zero. Correct it"),
    ("another function", "derive airy(u) --continuous", 1, "calls airy, which is not one of Abs, .*Max.* Use one of these"),
    ("bars", "derive |u-y| --continuous", 1, r"the character '\|'. It takes .*Write Abs\(y - u\) for \|y - u\|"),
    ("a product without its star", "derive exp(-yu)", 1, r"the name yu, which was not declared.*Write y\*u for the product"),
    ("a product with a bracket", "derive 2(u-y) --continuous", 1, r"Write a product with its \*, as 2\*\(y - u\)"),
    ("large letters", "derive exp(-Y*u)", 1, "has the name Y, .*Write y\\."),
    ("e", "derive log(1+e**u)", 1, r"has the name e, .*Write exp\(u\)"),
    ("NumPy", "derive np.exp(-y*u)", 1, r"Write exp\(...\), without the name of a package"),
    ("cases", "derive Max(u<y,0)", 1, r"Write cases as Piecewise\("),
    ("a loss of scikit-learn", "derive log_loss", 1, "'log_loss' is called logistic here"),
    ("a mistyped loss", "derive logisitc", 1, "'logisitc' is called logistic here"),
    ("an order without a series", "derive exp(-y*u) --order 2", 1, '--order=2 belongs to --method series; --method auto has none. Leave it out'),
    ("nodes without a quadrature", "derive exp(-y*u) --nodes 3", 1,
     "--nodes=3 belongs to --method quadrature; --method auto takes none"),
    ("too many nodes", "derive exp(-y*u) --method quadrature --nodes 300", 1, "--nodes=300 is out of range. A rule has 2 to"),
    ("a quadrature past poles", "derive logistic --noise gaussian:0.5 --method quadrature", 1, "is not known to be entire"),
    ("a long expression", "derive " + "u+" * 2000 + "u", 1, "has 4,001 characters. It may have 2,000. Shorten it"),
    # Expressions.
    ("parentheses", "derive exp(u", 1, "'exp\\(u' is no expression: its parentheses"),
    ("another name", "derive exp(-y*z)", 1, "z"),
    ("code", "derive __import__('os')", 1, "has the character.*It takes letters, digits"),
    ("noise that is none", "derive exp(-y*u) --noise gauss:0.5", 1, "'gauss:0.5' is not known. Write gaussian:0.5"),
    ("noise without a size", "derive exp(-y*u) --noise gaussian", 1, "has no size. Write it as gaussian:0.5"),
    ("no noise", "derive exp(-y*u)", 1, "there is no noise to undo. Name that of the columns by --noise gaussian:0.5"),
    ("negative noise", "derive exp(-y*u) --noise gaussian:-1", 1, "-1"),
]  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("words", "code", "message"), [case[1:] for case in COMMANDS], ids=[case[0] for case in COMMANDS]
)
def test_a_mistake_on_the_command_line_is_told_in_words(words, code, message, place, capsys):
    arguments = [word.replace("{}", str(place)) for word in words.split()]
    try:
        found = cli.main(arguments)
    except SystemExit as stop:
        found = stop.code
    printed = capsys.readouterr()
    assert found == code
    assert printed.out == ""
    assert re.search(message, printed.err, re.DOTALL), printed.err
    assert printed.err.startswith("usage: symdebias" if code == 2 else "symdebias: ")
    assert "Traceback" not in printed.err
    assert SECRET not in printed.err
    assert not (place / "new").exists()
    assert not (place / "none.jsonl").exists()
    assert sd.Ledger(place / "spent.jsonl", "panel").entries == ()


TABLE = pd.DataFrame({"age": np.linspace(20, 60, 20), "work": np.tile(["private", "state"], 10)})
Y = np.tile([-1.0, 1.0], 10)
RELEASE = sd.Release(
    {"age": sd.LaplaceMechanism(1.0, bounds=(17, 90)), "work": sd.RandomizedResponse(1.0, ("private", "state"))},
    sd.RandomizedResponse(1.0),
)
VECTOR = sd.Release(
    {("age", "work"): sd.GaussianMechanism.from_scale(1.0)},
    fit_intercept=True,
    categories={"work": ("private", "state", "other")},
)
BALL = sd.Release(sd.GaussianMechanism(1.0, 1e-5, radius=1.0), sd.RandomizedResponse(1.0))
MARGIN = sd.Release(sd.SphericalCapMechanism(1.0, radius=100.0), "margin", fit_intercept=True)
AGES = np.column_stack([TABLE["age"], TABLE["age"]])
KNOWN = sd.Release(sd.GaussianMechanism.from_scale(1.0), "margin", fit_intercept=True)


def worked(age=None, work=None):
    return TABLE.assign(**{name: one for name, one in (("age", age), ("work", work)) if one is not None})


def one_file():
    with tempfile.TemporaryDirectory() as folder:
        BALL.privatize(AGES / 100, Y).save(Path(folder) / "released")
        return sd.load(Path(folder) / "released" / "card.json")


def schema(**columns):
    return sd.Schema({"epsilon": 1.0, "columns": columns})


U = sp.Symbol("u", real=True)
POPULATION = sd.planning.Population([[0.1], [0.2]], [1.0, -1.0])
FIT = sd.Fit.of(
    sd.debias(sd.losses.exponential(), BALL),
    np.zeros(2),
    solver="by hand",
    records=20,
    steps=0,
    began=0.0,
    inference=None,
)

CALLS = [
    ("labels 0 and 1", lambda: RELEASE.privatize(TABLE, (Y + 1) / 2), r"must be -1 or \+1; got 0 and 1\. Pass 2\*y - 1"),
    ("labels as text", lambda: RELEASE.privatize(TABLE, np.where(Y > 0, "yes", "no")),
     r"y must hold real numbers.*got <U3.*numpy.where\(y == .yes., 1, -1\), or declare them"),
    ("dates", lambda: BALL.privatize(AGES.astype("M8[D]"), Y), "a number as the days since another"),
    ("numbers as objects", lambda: BALL.privatize(AGES.astype(object), Y), r"got object. Convert it first. .*array.astype\(float"),
    ("one text among numbers", lambda: BALL.privatize([[0.1, 0.2], [0.1, object]], Y[:2]), "is in row 1, column 1: its type is type"),
    ("nothing", lambda: BALL.privatize(None, Y), "X must hold real numbers.*got NoneType. Pass an array"),
    ("a loss that is not in the catalogue", lambda: sd.losses.cubic(), "has no attribute 'cubic'. Take one of cauchy, .*tweedie, or"),
    ("a loss by another name", lambda: sd.losses.mse(), "has no attribute 'mse'. Here it is called least_squares. Take one of"),
    ("a loss in words", lambda: sd.debias("log loss", RELEASE), r"got str. Pass symdebias.losses.logistic\(\)"),
    ("records in columns", lambda: BALL.privatize(AGES.T, Y), "y has 20 entries, but X has 2 rows.*records are the rows of X"),
    ("a level that a name does not say", lambda: sd.fit("y ~ age", TABLE.assign(y=Y), RELEASE, loss="expectile"),
     r"expectile needs a level, which a name does not say. Pass symdebias.losses.expectile\(level=...\)"),
    ("a level in an estimator", lambda: sd.DebiasedRegressor(loss="expectile").fit(AGES, Y), "expectile needs a level"),
    ("restrictions in words", lambda: sd.inference.wald_test(np.ones(2), np.eye(2), "a = 0"), "restrictions must hold real numbers"),
    ("a value too many", lambda: sd.inference.wald_test(np.ones(2), np.eye(2), [1.0, 0.0], [0.0, 1.0]),
     r"values has the shape \(2,\); it must be a number, or \(1,\)"),
    ("categories of a mechanism", lambda: sd.RandomizedResponse(1.0, ("no", "yes")).privatize(["no", "yes"]),
     "values must hold real numbers.*categories of text as their codes 0, 1"),
    ("planning by a name", lambda: sd.plan("logistic", POPULATION, epsilon=1.0, n=100),
     r"got str. Pass symdebias.losses.logistic\(\)\.$"),
    ("planning by parameters", lambda: sd.plan(sd.losses.logistic(), [1.0], epsilon=1.0, n=100), r"got list. Pass .*guess\(theta"),
    ("raw units in a unit ball", lambda: BALL.privatize(AGES, Y), "all 20 records lie outside .*center and scale, or pass outside=\"clip-all\" where"),
    ("no target", lambda: RELEASE.privatize(TABLE), "noises the target, but y was not given. Pass y"),
    ("a missing column", lambda: RELEASE.privatize(TABLE[["age"]], Y), "missing: work. Select and name"),
    ("a column too many", lambda: RELEASE.privatize(TABLE.assign(name=SECRET), Y), r"not in the release: name. Select and name the columns as declared: pass X\[\['"),
    ("a column too many for a vector", lambda: VECTOR.privatize(TABLE.assign(name=1.0)), r"pass X\[\['age', 'work'\]\]\."),
    ("true and false as categories", lambda: sd.RandomizedResponse(1.0, (False, True)),
     r"\(False, True\) are no texts and no numbers. Give categories=\(\"False\", \"True\"\)"),
    ("released records as a whole", lambda: sd.m_estimate(FIT.corrected, RELEASE.privatize(TABLE, Y, random_state=0), Y),
     r"got Noised. Pass its columns and its target, noised.X and noised.y"),
    ("a column for a table", lambda: FIT.predict(TABLE["age"]), r"records and columns; got a Series. Pass table\[\[name\]\] for one column, or table.iloc\[\[row\]\]"),
    ("a row for a table", lambda: FIT.predict(TABLE.iloc[0]), "records and columns; got a Series"),
    ("a missing number", lambda: RELEASE.privatize(worked(age=[np.nan, *TABLE["age"][1:]]), Y), r"NaN in row 0.*\(age\)"),
    ("a missing category", lambda: RELEASE.privatize(worked(work=[None, *TABLE["work"][1:]]), Y), "work of X has no value in"),
    ("an undeclared category", lambda: RELEASE.privatize(worked(work=[SECRET, *TABLE["work"][1:]]), Y),
     "work of X has a value in row 0 that was not declared. The categories are private, state: declare"),
    ("text without categories", lambda: BALL.privatize(TABLE, Y), "column work of X must hold real numbers.*declare its"),
    ("y of another length", lambda: RELEASE.privatize(TABLE, Y[:5]), "y has 5 entries, but X has 20 rows. Pass one per"),
    ("one dimension", lambda: BALL.privatize(Y, Y), r"must have two dimensions.*X.reshape\(-1, 1\)"),
    ("no budget", lambda: sd.LaplaceMechanism(0.0, bounds=(0, 1)), "epsilon=0.0 is too small. It must be a number in"),
    ("Gaussian noise without delta", lambda: sd.GaussianMechanism(1.0, 0.0, radius=1.0), "delta=0.0 is too small. It must"),
    ("bounds in the wrong order", lambda: sd.LaplaceMechanism(1.0, bounds=(1, 0)), "are not in order. The first must be below"),
    ("a forgotten mechanism", lambda: sd.Release({"age": 1.0}), "features are noised by mechanisms; got float. Pass a"),
    ("a column twice", lambda: sd.Release({"age": sd.RandomizedResponse(1.0)}, noiseless=["age"]), "age is named more than"),
    ("a schema as text", lambda: sd.Release.from_schema("epsilon = 1"), "is not there. Name a TOML file"),
    ("a schema without a budget", lambda: sd.Release.from_schema({"columns": {}}), "no entry epsilon. Give the budget"),
    ("a loss as text", lambda: sd.Loss("exp(-y*u)", score=None, target=None), "str|SymPy"),
    ("a loss by name", lambda: sd.debias("logistic", RELEASE), r"got str. Pass symdebias.losses.logistic\(\)\.$"),
    ("a name as commands have it", lambda: sd.debias("Least-Squares", RELEASE), r"Pass symdebias.losses.least_squares\(\)"),
    ("a name with a slip", lambda: sd.debias("logstic", RELEASE), r"Pass symdebias.losses.logistic\(\)"),
    ("a name that does not say all", lambda: sd.debias("softmax", RELEASE), r"Pass symdebias.losses.softmax\(classes=...\)"),
    ("a loss that is no sum", lambda: sd.debias("coxph", RELEASE), "Cox's partial likelihood is no sum"),
    ("a formula as a loss", lambda: sd.debias("exp(-y*u)", RELEASE), "declare one: text is never evaluated. There are cauchy, "),
    ("a class for a mechanism", lambda: sd.Release(sd.GaussianMechanism), "got the class GaussianMechanism, which is to be called"),
    ("a class for a column", lambda: sd.Release({"age": sd.LaplaceMechanism}), "got the class LaplaceMechanism, which"),
    ("a class for the target", lambda: sd.Release(None, sd.RandomizedResponse), "got the class RandomizedResponse, which"),
    ("another coding of labels",
     lambda: sd.debias(sd.losses.logistic(), sd.Release(BALL.groups[0][1], sd.RandomizedResponse(1.0, (0, 1)))),
     r"target values \{-1, 1\} and the release \{0, 1\}. "),
    ("a loss that the release cannot answer", lambda: sd.debias(sd.losses.poisson(), MARGIN), "is no margin loss.*Use one of"),
    ("true labels beside released records", lambda: sd.debias(sd.losses.exponential(), KNOWN).mean_loss(np.zeros(3), AGES, Y),
     "y has labels as they are.*Pass noised.y"),
    ("parameters of another length", lambda: sd.debias(sd.losses.exponential(), BALL).mean_loss([0.0], AGES, Y),
     r"theta has the shape \(1,\); it must be \(2,\)"),
    ("the guarantee of a seed", lambda: BALL.privatize(AGES / 100, Y, random_state=0).guarantee, "from a seed.*Call privatize"),
    ("a card cut short", lambda: sd.Release.from_json(RELEASE.to_json()[:-5]), "not a release card.*Ask for the output"),
    ("a file of a folder", one_file, r"card.json is one file of a released folder. Name the folder: "),
    ("no released folder", lambda: sd.load("none"), "none is not there. Name the folder"),
    ("a name of another room", lambda: sd.logistic, r"no attribute 'logistic'\. Use symdebias\.losses\.logistic"),
    ("a name misspelled", lambda: sd.GausianMechanism, "Use symdebias.GaussianMechanism"),
    ("a mechanism for a release", lambda: sd.debias(sd.losses.logistic(), BALL.groups[0][1]), r"got GaussianMechanism. Wrap it"),
    ("a loss that is not called", lambda: sd.debias(sd.losses.logistic, BALL), r"got function. Call it: logistic\(\)"),
    ("loss and release exchanged", lambda: sd.debias(BALL, sd.losses.logistic()), "got Release. Take one of symdebias.losses"),
    ("a loss that is not corrected", lambda: sd.m_estimate(sd.losses.logistic(), AGES, Y), r"got Loss. Pass debias\("),
    ("labels as text, and a loss of numbers",
     lambda: sd.debias(sd.losses.logistic(), sd.Release(BALL.groups[0][1], sd.RandomizedResponse(1.0, ("no", "yes")))),
     r"texts, counted from 0: no is 0, yes is 1. Use loss.recoded\(\(0.0, 1.0\)\).*DebiasedClassifier"),
    ("three labels, and a loss of two",
     lambda: sd.debias(sd.losses.logistic(), sd.Release(BALL.groups[0][1], sd.RandomizedResponse(1.0, (0, 1, 2)))),
     r"release \{0, 1, 2\}. Declare the same.*are for symdebias.losses.softmax\(3\)"),
    ("categories as one text", lambda: sd.RandomizedResponse(1.0, "ab"), r"is one text. Give a list of two or more categories"),
    ("a budget as text", lambda: sd.LaplaceMechanism("1", bounds=(0, 1)), "epsilon has the type str. It must be a number in"),
    ("no bounds", lambda: sd.LaplaceMechanism(1.0), r"neither of bounds and radius was given. Give bounds=\(low, high\)"),
    ("a misspelled kind of target", lambda: sd.Release(sd.SphericalCapMechanism(1.0, radius=1.0), "Margin"), 'Pass a mechanism, or "margin"'),
    ("one column in one vector", lambda: sd.Release(sd.LaplaceMechanism(1.0, bounds=(0, 1)), "margin"), "Pass a mechanism with radius="),
    ("numbers as labels", lambda: MARGIN.privatize(AGES, AGES[:, 0]), r"labels must be -1 or \+1; got 20 other values.*recode"),
    ("another generator", lambda: BALL.privatize(AGES, Y, random_state=np.random.RandomState(0)), "got RandomState. Pass a seed"),
    ("y of two dimensions", lambda: BALL.privatize(AGES, Y[:, None]), r"y must have one dimension.*Pass numpy.ravel\(y\)"),
    ("true and false as labels", lambda: BALL.privatize(AGES, Y > 0), "got bool. Convert it first"),
    ("two columns of one name", lambda: BALL.privatize(pd.DataFrame(AGES, columns=["a", "a"]), Y), "more than one column named a. Give"),
    ("numbers as names", lambda: BALL.privatize(pd.DataFrame(AGES), Y), "is not text, but has the type int.*Rename the columns"),
    ("masked entries", lambda: BALL.privatize(np.ma.masked_array(AGES, mask=AGES > 59), Y), "masked entries. Fill or drop"),
    ("a dict as a table", lambda: BALL.privatize({"age": AGES[:, 0]}, Y), r"got dict. A dict names columns.*pandas.DataFrame\(X\)"),
    ("a path as a table", lambda: BALL.privatize("people.csv", Y), r"got one text. Of a file, pass.*pandas.read_csv"),
    ("a path of the library as a table", lambda: BALL.privatize(Path("people.csv"), Y), r"got .*Path. Of a file, pass"),
    ("a scale in the place of a budget", lambda: sd.LaplaceMechanism(5.0), r"neither of bounds.*LaplaceMechanism.from_scale\("),
    ("a sparse matrix", lambda: BALL.privatize(sparse.csr_matrix(AGES), Y), r"is a sparse matrix.*pass X.toarray\(\)"),
    ("an expression of NumPy", lambda: sd.Loss(lambda u, y: (u - y) ** 2, score=sp.Symbol("u"), target=sp.Symbol("y")),
     "must be a SymPy expression; got function. Build it"),
    ("a symbol too many", lambda: sd.Loss(U * sp.Symbol("a"), score=U, target=sp.Symbol("y", real=True)), "undeclared symbols: a. Put"),
    ("a level in percent", lambda: sd.losses.quantile(95), r"level=95 is too large. It must be a number in \(0, 1\)"),
    ("columns of a schema as a list", lambda: sd.Schema({"epsilon": 1, "columns": ["age"]}), "names no columns. Give each an entry"),
    ("numbers and texts as categories", lambda: schema(work={"categories": ["a", 1]}), "has 'a', which is not a number. Give"),
    ("bounds as text", lambda: schema(age={"bounds": "0-1"}), r"is no pair of numbers. Give columns.age.bounds=\(low, high\)"),
    ("true and false in a table", lambda: schema(age={"bounds": [0, 1]}).collect({"age": np.array([True])}), "It is true or false: declare"),
    ("true and false in categories", lambda: schema(age={"categories": [0, 1]}).collect({"age": np.array([True])}),
     r"Its categories are 0, 1: true and false are texts here.*declare all"),
    ("dates in a table", lambda: schema(age={"bounds": [0, 1]}).collect({"age": pd.to_datetime(["2024-01-01"]).values}),
     "It is a date: convert the column to a number, such as days since"),
    ("coefficients by another name", lambda: FIT.coef_, "no attribute 'coef_'. Use theta, or coefficients in the units"),
    ("intervals by another name", lambda: FIT.conf_int(), r"no attribute 'conf_int'. Use confidence_interval\(\)"),
    ("a metric by another name", lambda: sd.evaluation.evaluate(FIT, AGES, Y, metric="auc"), "'auc' is not known. Here it is called roc_auc. Choose one of"),
    ("a threshold of a probability", lambda: sd.evaluation.evaluate(FIT, AGES, Y, metric="brier", threshold=0.5),
     "compare scores with; the metric brier has none. Leave it out"),
    ("columns of an array without names", lambda: RELEASE.privatize(AGES, Y), "column work of X .*no code of a category. An"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS])
@pytest.mark.filterwarnings("ignore::symdebias.exceptions.ClippingWarning")
def test_a_mistake_in_python_is_told_in_words(call, message):
    with pytest.raises((ValueError, TypeError, AttributeError, FileNotFoundError, sd.SymdebiasError)) as raised:
        call()
    said = str(raised.value)
    assert re.search(message, said, re.DOTALL), said
    assert ". " in said or "; it must be" in said, said
    assert SECRET not in said


def test_the_tables_are_long_enough():
    assert len(COMMANDS) >= 30
    assert len(CALLS) >= 30
