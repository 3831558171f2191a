"""Laplacian smoothing of the gradients of any PyTorch optimizer, for networks that the kernels here do not train."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import numpy as np

from symdebias import _optional
from symdebias._domains import check_choice
from symdebias.exceptions import MissingDependencyError
from symdebias.solvers.smoothing import SIGMA

__all__ = ["LaplacianSmoothing"]

Scope = Literal["tensor", "vector"]

_SCOPES = get_args(Scope)
# What a parameter group calls its strength.
_KEY = "smoothing"


def _base() -> Any:
    """Return PyTorch's Optimizer, which schedulers ask for; without PyTorch there is only the name, to read about."""
    try:
        return _optional.require("torch.optim", extra="torch").Optimizer
    except MissingDependencyError:
        return object


class LaplacianSmoothing(_base()):  # type: ignore[misc]
    """An optimizer of PyTorch whose gradients are smoothed before each step: d = (I - sigma L)^{-1} g.

    L is the periodic second difference, so that d_i - sigma (d_{i-1} - 2 d_i + d_{i+1}) = g_i: the smoothing of
    `symdebias.laplacian_smoothing`, here by the fast Fourier transform and on the device of the gradient. It keeps the
    mean of what it smooths. Around an optimizer of noised gradients it is post-processing, and costs no privacy.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Any. It takes the steps, and keeps the state and the parameter groups.
    sigma : float
        The strength, in [0, 1e12]; with 0 the steps are those of the optimizer alone. A parameter group may have its
        own: ``{"params": ..., "smoothing": 0.0}``.
    scope : {"tensor", "vector"}
        What is smoothed together. ``"tensor"``: the entries of each parameter in C order, as the source's code does.
        ``"vector"``: the entries of all parameters that have a gradient, one after the other in the order of the
        groups, as the source's formulas do. Groups with the strength 0 are left out, and the others must have the same.

    Attributes
    ----------
    optimizer : torch.optim.Optimizer
        The wrapped optimizer.
    sigma : float
        The strength of groups that have none of their own.
    scope : {"tensor", "vector"}
        As given.

    Raises
    ------
    MissingDependencyError
        PyTorch is not installed.
    TypeError, ValueError
        The optimizer is none, smooths already or makes its gradients itself; a strength is outside its range; the scope
        is not known. In a step: a gradient is sparse or complex, or ``"vector"`` meets different strengths, types or
        devices.

    Notes
    -----
    The gradients themselves, ``p.grad``, are after a step what they were before it: a second step, or one after more
    gradients were added up, smooths once. Weight decay that the optimizer adds is not smoothed. A gradient that is None
    is skipped; a NaN becomes NaN in all that is smoothed with it. Gradients of less than 32 bits are smoothed in
    float32 and rounded back. Parameters that are divided over several processes are not supported.

    With a closure the gradients that it leaves are smoothed, each time that it is called. A line search then compares
    losses along smoothed gradients: ``LBFGS(line_search_fn="strong_wolfe")`` is not what it was made for.

    The strength stands in each parameter group under ``"smoothing"``, as the step size does under ``"lr"``. It may be
    changed there between steps, ``state_dict()`` has it, and ``load_state_dict`` brings it back. Hooks are those of the
    wrapped optimizer, and see smoothed gradients.

    With Opacus, wrap the optimizer *before* ``make_private``: ``make_private(optimizer=LaplacianSmoothing(SGD(...)))``
    smooths what was noised.

    References
    ----------
    Wang, Gu, Boedihardjo, Barekat & Osher 2019, Section 1 (arXiv 1906.12056); their code smooths tensor by tensor.

    Examples
    --------
    >>> LaplacianSmoothing("SGD", sigma=-1.0)
    Traceback (most recent call last):
    ValueError: sigma=-1.0 ...

    With PyTorch::

        optimizer = LaplacianSmoothing(torch.optim.SGD(model.parameters(), lr=0.1), sigma=1.0)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
        loss.backward()
        optimizer.step()
    """

    # Fused optimizers divide by the factor of a gradient scaler themselves, which they would not find behind this.
    _step_supports_amp_scaling = False

    def __init__(self, optimizer: Any, sigma: float = 1.0, *, scope: Scope = "tensor") -> None:
        sigma = SIGMA.check("sigma", sigma)
        check_choice("scope", scope, _SCOPES)
        kind = _optional.require("torch.optim", extra="torch").Optimizer
        if not isinstance(optimizer, kind):
            raise TypeError(
                f"the optimizer is a {type(optimizer).__name__}, not an optimizer of PyTorch. "
                "Pass one, such as torch.optim.SGD(model.parameters(), lr=0.1)."
            )
        if isinstance(optimizer, LaplacianSmoothing):
            raise TypeError(
                'the optimizer smooths already. Change its strength in param_groups[...]["smoothing"], or wrap '
                "its .optimizer."
            )
        if hasattr(optimizer, "original_optimizer"):
            raise TypeError(
                f"{type(optimizer).__name__} makes its gradients within its steps, after they would be smoothed. "
                "Wrap its original_optimizer: pass LaplacianSmoothing(...) to make_private."
            )
        self.optimizer, self.sigma, self.scope = optimizer, sigma, scope
        self._curvatures: dict[Any, Any] = {}
        self._strengths()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameter groups of the wrapped optimizer."""
        groups: list[dict[str, Any]] = self.optimizer.param_groups
        return groups

    @property
    def state(self) -> Any:
        """The state of the wrapped optimizer."""
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults of the wrapped optimizer."""
        defaults: dict[str, Any] = self.optimizer.defaults
        return defaults

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step of the wrapped optimizer along smoothed gradients.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients again, and returns the loss.

        Returns
        -------
        What the wrapped optimizer returns: the loss of the closure, or None.

        Raises
        ------
        TypeError, ValueError
            A gradient is sparse or complex, or ``scope="vector"`` meets different strengths, types or devices.
        """
        own: list[tuple[Any, Any]] = []

        def give_back() -> None:
            for parameter, gradient in own:
                parameter.grad = gradient
            own.clear()

        def smooth() -> None:
            for parameter, gradient in list(self._smoothed()):
                own.append((parameter, parameter.grad))
                parameter.grad = gradient

        def evaluated() -> Any:
            give_back()
            loss = closure() if closure is not None else None
            smooth()
            return loss

        try:
            if closure is not None:
                return self.optimizer.step(evaluated)
            smooth()
            return self.optimizer.step()
        finally:
            give_back()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, as the wrapped optimizer does.

        Parameters
        ----------
        set_to_none : bool
            Whether they become None, and not zeros.
        """
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group to the wrapped optimizer.

        Parameters
        ----------
        param_group : dict
            As PyTorch takes it; with a strength of its own under ``"smoothing"``, or that of the constructor.

        Raises
        ------
        TypeError, ValueError
            The strength is outside its range, or PyTorch refuses the group.
        """
        SIGMA.check(_KEY, param_group.get(_KEY, self.sigma))
        self.optimizer.add_param_group(param_group)
        self._strengths()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the wrapped optimizer; the strengths are in its parameter groups."""
        self._strengths()
        state: dict[str, Any] = self.optimizer.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state with its strengths.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` returned, or that of the same optimizer without smoothing: its groups get the strength of
            the constructor.

        Raises
        ------
        ValueError
            The state does not fit the parameter groups, or a strength is outside its range.
        """
        self.optimizer.load_state_dict(state_dict)
        self._strengths()

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """Register a hook of the wrapped optimizer, as PyTorch does."""
        return self.optimizer.register_step_pre_hook(hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Any:
        """Register a hook of the wrapped optimizer, as PyTorch does."""
        return self.optimizer.register_step_post_hook(hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Any:
        """Register a hook of the wrapped optimizer, as PyTorch does."""
        return self.optimizer.register_state_dict_pre_hook(hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Any:
        """Register a hook of the wrapped optimizer, as PyTorch does."""
        return self.optimizer.register_state_dict_post_hook(hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Any:
        """Register a hook of the wrapped optimizer, as PyTorch does."""
        return self.optimizer.register_load_state_dict_pre_hook(hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Any:
        """Register a hook of the wrapped optimizer, as PyTorch does."""
        return self.optimizer.register_load_state_dict_post_hook(hook, prepend)

    def __repr__(self) -> str:
        return f"LaplacianSmoothing(sigma={self.sigma:g}, scope={self.scope!r}) of {self.optimizer!r}"

    def __getstate__(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer, "sigma": self.sigma, "scope": self.scope}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._curvatures = {}

    def _strengths(self) -> list[float]:
        """Return the strength of each group, which it has in it from now on."""
        return [SIGMA.check(_KEY, group.setdefault(_KEY, self.sigma)) for group in self.param_groups]

    def _smoothed(self) -> Iterator[tuple[Any, Any]]:
        """Yield the parameters whose gradients change, and these."""
        chosen = []
        for group, sigma in zip(self.param_groups, self._strengths(), strict=True):
            if sigma > 0.0:
                found = [one for one in group["params"] if one.grad is not None]
                chosen += [(one, _checked(one.grad), sigma) for one in found]
        if self.scope == "tensor":
            for parameter, gradient, sigma in chosen:
                yield parameter, self._solved(gradient.reshape(-1), sigma).reshape(gradient.shape)
        elif chosen:
            kinds = {(gradient.dtype, gradient.device, sigma) for _, gradient, sigma in chosen}
            if len(kinds) > 1:
                raise ValueError(
                    'scope="vector" smooths the gradients of all groups as one vector, and these have different types, '
                    "devices or strengths: "
                    + "; ".join(sorted(f"{dtype} on {device}, {sigma:g}" for dtype, device, sigma in kinds))
                    + '. Make them alike, give groups that are to be left out the strength 0, or use scope="tensor".'
                )
            torch = _optional.require("torch", extra="torch")
            vector = torch.cat([gradient.reshape(-1) for _, gradient, _ in chosen])
            parts = self._solved(vector, chosen[0][2]).split([gradient.numel() for _, gradient, _ in chosen])
            for (parameter, gradient, _), part in zip(chosen, parts, strict=True):
                yield parameter, part.reshape(gradient.shape)

    def _solved(self, vector: Any, sigma: float) -> Any:
        """Return the solution d of (I - sigma L) d = vector."""
        torch, size = _optional.require("torch", extra="torch"), vector.numel()
        # One entry is its own neighbour; the Fourier transform takes none that is empty.
        if size < 2:
            return vector.clone()
        wide = vector if vector.dtype.itemsize >= 4 else vector.float()
        key = (size, wide.dtype, wide.device)
        if key not in self._curvatures:
            # The length of the whole vector may change with each step, if other gradients are None.
            if self.scope == "vector":
                self._curvatures.clear()
            # The eigenvalues of -L, by a sine that does not cancel as 2 - 2 cos does.
            eigenvalues = 4.0 * np.sin(np.pi * np.arange(size // 2 + 1) / size) ** 2
            self._curvatures[key] = torch.from_numpy(eigenvalues).to(wide.dtype).to(wide.device)
        spectrum = torch.fft.rfft(wide) / (1.0 + sigma * self._curvatures[key])
        return torch.fft.irfft(spectrum, n=size).to(vector.dtype)


def _checked(gradient: Any) -> Any:
    """Return a gradient without its own history, if it can be smoothed."""
    if gradient.layout is not _optional.require("torch", extra="torch").strided:
        raise TypeError(
            f"a gradient of shape {tuple(gradient.shape)} is sparse, and smoothing would fill it. Make it dense "
            '(Embedding(sparse=False)), or give its parameter group the strength 0: "smoothing": 0.0.'
        )
    if gradient.is_complex():
        raise TypeError(
            f"a gradient of shape {tuple(gradient.shape)} is complex; only real ones are smoothed. Give its parameter "
            'group the strength 0: "smoothing": 0.0.'
        )
    return gradient.detach()
