"""A scaler of scikit-learn for released records: centre and scale come from declared bounds, never from the data.

A scaler that is fitted to released records learns the noise: its scale is that of true values and noise together, and
the noise that the release declares is then no longer the noise of its columns. This one is known before the data are,
and says what the release is in its units.
"""

from typing import Any

import numpy as np

from symdebias import _arrays, _optional
from symdebias._arrays import FloatArray
from symdebias._domains import shown
from symdebias.mechanisms import ChannelMechanism, Mechanism
from symdebias.mechanisms.ranges import Grid
from symdebias.mechanisms.rescaled import rescaled
from symdebias.release import Release
from symdebias.release.columns import in_order
from symdebias.release.remaking import remade
from symdebias.release.required import required_columns

__all__ = ["ReleaseScaler"]

_base: Any = _optional.require("sklearn.base", extra="sklearn")


class ReleaseScaler(_base.OneToOneFeatureMixin, _base.TransformerMixin, _base.BaseEstimator):
    """A transformer that brings columns to about [-1, 1] by the declared bounds of their release.

    Parameters
    ----------
    release : Release
        With names for its columns, as ``noised.release`` has them.

    Attributes
    ----------
    scaled_release : Release
        The release in the units of what `transform` returns, for the estimator that comes after. It is known before
        `fit`.
    center_, scale_ : array of shape (p,), float64
        What `transform` takes out of each column, and divides it by.
    n_features_in_ : int
        p.
    feature_names_in_ : array of str
        The names of the columns, for a table.

    Raises
    ------
    TypeError, ValueError
        At `fit`: the release is none, has no names, or has columns that have no units.

    Notes
    -----
    A column with bounds goes to [-1, 1] where the release has an intercept, which takes up the shift; without one it is
    divided by its larger absolute bound. Columns of a ball are divided by its radius. Columns without a declared
    range, noiseless columns and categories stay as they are.

    Released values and true ones are transformed alike, so that a pipeline is fitted on ``noised.X`` and predicts for
    true records in their own units. Nothing is spent: it is arithmetic on what was released.

    The regularisation l2 of an estimator is in the units of its columns; this makes them comparable.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform([20, 0], [60, 5], size=(20_000, 2))
    >>> release = sd.Release(
    ...     {"age": sd.LaplaceMechanism(4.0, bounds=(20, 60)), "rooms": sd.LaplaceMechanism(4.0, bounds=(0, 5))},
    ...     fit_intercept=True,
    ... )
    >>> noised = release.privatize(X, X @ [0.1, -1.0], random_state=2)
    >>> scaler = sd.ReleaseScaler(release)
    >>> model = make_pipeline(scaler, sd.DebiasedRegressor(release=scaler.scaled_release))
    >>> model = model.fit(noised.X, noised.y)
    >>> np.round(model.predict([[50.0, 1.0]]), 1)
    array([4.])
    """

    def __init__(self, release: Release) -> None:
        self.release = release

    @property
    def scaled_release(self) -> Release:
        """The release in the units of what `transform` returns."""
        return _scaled(self.release)[0]

    def fit(self, X: Any, y: Any = None) -> "ReleaseScaler":
        """Check that records have the columns of the release; nothing is computed from them.

        Parameters
        ----------
        X : array of shape (n, p) or table
            Released or true records.
        y : None
            Ignored.

        Returns
        -------
        ReleaseScaler
            Itself.
        """
        _, self.center_, self.scale_ = _scaled(self.release)
        self.n_features_in_ = len(self.center_)
        self._numbers_of(X)
        if _arrays.is_table(X):
            self.feature_names_in_ = np.array(_arrays.column_names(X), dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def transform(self, X: Any) -> Any:
        """Return records in the new units: an array, or a table of the same kind.

        Parameters
        ----------
        X : array of shape (n, p) or table
            Released or true records.

        Returns
        -------
        array of shape (n, p), float64, or table
            ``(X - center_)/scale_``. Columns that stay as they are are not touched.
        """
        _, center, scale = _scaled(self.release)
        return self._moved(X, -center / scale, 1 / scale)

    def inverse_transform(self, X: Any) -> Any:
        """Return records in their old units.

        Parameters
        ----------
        X : array of shape (n, p) or table
            What `transform` returned.

        Returns
        -------
        array of shape (n, p), float64, or table
            ``X scale_ + center_``.
        """
        _, center, scale = _scaled(self.release)
        return self._moved(X, center, scale)

    def _moved(self, X: Any, shift: FloatArray, factor: FloatArray) -> Any:
        columns = self.release.columns
        assert columns is not None
        if not _arrays.is_table(X):
            return self._numbers_of(X) * factor + shift
        names = _arrays.column_names(X)
        self._numbers_of(X)
        values, table = [], _arrays.frame(X)
        for name in names:
            place = columns.index(name)
            own = table[name]
            moved = factor[place] != 1 or shift[place] != 0
            values.append(_arrays.real_array(own, f"column {name}") * factor[place] + shift[place] if moved else own)
        return _arrays.table_like(X, names, values, keep_index=True)

    def _numbers_of(self, X: Any) -> FloatArray:
        """Return X as an array, or an array of its shape where it is a table with the columns of the release."""
        columns = self.release.columns
        assert columns is not None
        if not _arrays.is_table(X):
            return _arrays.features_array(X, columns)
        names = _arrays.column_names(X)
        if set(names) != set(columns):
            raise ValueError(
                f"X has the columns {', '.join(names)}, and the release {', '.join(columns)}. Select and name the "
                "columns as declared."
            )
        return np.zeros((0, len(names)))

    def __sklearn_is_fitted__(self) -> bool:
        # What it does is known before the data.
        return True

    def _more_tags(self) -> dict[str, Any]:
        """Return the tags that scikit-learn before 1.6 asks for."""
        return {"stateless": True, "requires_fit": False}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def _scaled(release: Any) -> tuple[Release, FloatArray, FloatArray]:
    """Return a release in the units of declared bounds, and centre and scale of its columns.

    With z = (x - m)/d what is noised of a true x, released values go from z to (z - c)/s. True values do alike, from x
    to w = (x - c)/s, so that (z - c)/s = (w - (m + d c - c)/s)/d: the new release has the centre (m + d c - c)/s and
    the scale d.
    """
    columns = required_columns(release)
    if release.coupling is not None or release.categories:
        what = f'target="{release.coupling.kind}"' if release.coupling is not None else "categories in its vector"
        raise ValueError(
            f"a release with {what} has its columns in one vector, which a change of one unit would tear apart. "
            "Declare center and scale on the release before records are noised."
        )
    center, scale = np.zeros(len(columns)), np.ones(len(columns))
    features: dict[str | tuple[str, ...], Mechanism] = {}
    for (place, mechanism), (names, _) in zip(release.placed(len(columns)), release.groups, strict=True):
        assert names is not None
        middle, size = _centre_and_size(mechanism, release.fit_intercept)
        center[place], scale[place] = middle, size
        moved = size != 1 or middle != 0
        features[names] = rescaled(mechanism, center=middle, scale=size) if moved else mechanism
    own_center = in_order(release.center, columns, absent=0.0)
    own_scale = in_order(release.scale, columns, absent=1.0)
    moved_center = (own_center + own_scale * center - center) / scale
    made = remade(
        release,
        features or None,
        center={name: float(value) for name, value in zip(columns, moved_center, strict=True) if value},
        scale={name: float(value) for name, value in zip(columns, own_scale, strict=True) if value != 1},
    )
    return made, center, scale


def _centre_and_size(mechanism: Mechanism, has_intercept: bool) -> tuple[float, float]:
    """Return the public centre and scale of a mechanism's columns; 0 and 1 where it declares no range."""
    if isinstance(mechanism, ChannelMechanism):
        return 0.0, 1.0
    bounds, radius = getattr(mechanism, "bounds", None), getattr(mechanism, "radius", None)
    if bounds is None:
        return 0.0, 1.0 if radius is None else float(radius)
    low, high = bounds
    if not has_intercept:
        return 0.0, max(abs(low), abs(high))
    middle, size = (low + high) / 2, (high - low) / 2
    if isinstance(mechanism.range, Grid):
        # What is on the grid stays on one.
        middle = float(mechanism.range.places(np.array(middle)) * mechanism.range.step)
    if not np.isfinite(size) or not size > 0:
        raise ValueError(f"the bounds {shown(bounds)} have no middle in float64. Declare narrower ones.")
    return middle, size
