"""The command that derives a corrected loss from a text."""

import argparse
from collections.abc import Callable

from symdebias import _loss_names, losses
from symdebias.driver import debias
from symdebias.interfaces.cli import show
from symdebias.interfaces.cli.expressions import loss_of_expression
from symdebias.interfaces.cli.parser import is_name
from symdebias.interfaces.coding import in_labels
from symdebias.interfaces.symbols import meanings
from symdebias.losses import Loss
from symdebias.mechanisms import GaussianMechanism, LaplaceMechanism, Mechanism, RandomizedResponse, UniformMechanism
from symdebias.release import Release

_NOISES: dict[str, Callable[[float], Mechanism]] = {
    "gaussian": GaussianMechanism.from_scale,
    "laplace": LaplaceMechanism.from_scale,
    "uniform": UniformMechanism,
}


def derive(options: argparse.Namespace) -> None:
    """Print the corrected loss of an expression or a name."""
    loss = _loss(options)
    mechanism, values = _mechanism(options.noise), loss.target_values
    target = None
    if options.target_epsilon is not None:
        if values is None:
            raise ValueError("--target-epsilon is for labels, and y is any number. Give --target-values, as -1,1.")
        target = RandomizedResponse(options.target_epsilon, values)
    release = Release(mechanism, target)
    given = {"order": options.order, "nodes": options.nodes}
    more = {name: value for name, value in given.items() if value is not None}
    corrected = debias(loss, release, method=options.method, **more)
    if mechanism is None and target is None:
        raise ValueError(
            "there is no noise to undo. Name that of the columns by --noise gaussian:0.5, that of the label by "
            "--target-epsilon 2, or both."
        )
    resolved = corrected.method != "surrogate"
    text = str(corrected.expression) if resolved else None
    if options.json:
        answer = {
            "loss": str(loss.expression),
            "method": corrected.method,
            "reason": corrected.reason,
            "corrected": text,
            "conditions": [str(one) for one in corrected.conditions] if resolved else [],
            "latex": corrected.to_latex() if resolved else None,
            "symbols": dict(meanings(corrected)) if resolved else {},
        }
        show(answer)
        return
    print(f"loss        {loss.expression}")
    print(f"method      {corrected.reason or corrected.method}")
    if not resolved:
        print(
            "corrected   a surrogate, designed for the records by the solver: there is no formula before there is a fit"
        )
        return
    print(f"corrected   {corrected.to_latex() if options.latex else text}")
    if corrected.conditions:
        print(f"where       {', '.join(map(str, corrected.conditions))}")
    for names, words in meanings(corrected):
        print(f"            {names}: {words}")


def _loss(options: argparse.Namespace) -> Loss:
    values = options.target_values
    if options.continuous and values is not None:
        raise ValueError("--continuous and --target-values were both given. Give one: y is any number, or a label.")
    name = options.loss.strip().replace("-", "_")
    if name in _loss_names.CATALOGUE:
        needed = _loss_names.CATALOGUE[name].needs
        if needed == "level":
            raise ValueError(f"{name} needs a level, which a name does not say. Write its expression of u and y.")
        if name == "softmax":
            raise ValueError(
                "softmax is a loss of several scores, and one expression is shown. In Python "
                "sd.debias(sd.losses.softmax(k), release) shows them."
            )
        if options.continuous:
            raise ValueError("--continuous is for an expression; a loss by name knows its target. Leave it out.")
        made: Loss = getattr(losses, name)()
        return in_labels(made, values)
    meant = _loss_names.called_here(name) if is_name(options.loss) else None
    if meant is not None:
        raise ValueError(
            f"the loss {options.loss.strip()!r:.60} is called {meant.replace('_', '-')} here. Write that, or an "
            "expression of the score u and the target y, such as log(1 + exp(-y*u))."
        )
    return loss_of_expression(options.loss, None if options.continuous else values or (-1, 1))


def _mechanism(text: str) -> Mechanism | None:
    kind, divided, size = text.partition(":")
    if kind == "none" and not divided:
        return None
    if kind not in _NOISES:
        raise ValueError(
            f"--noise {text!r:.60} is not known. Write {', '.join(f'{one}:0.5' for one in _NOISES)} or none: kind "
            "and size of the noise."
        )
    try:
        number = float(size)
    except ValueError:
        raise ValueError(f"--noise {text!r:.60} has no size. Write it as {kind}:0.5.") from None
    return _NOISES[kind](number)
