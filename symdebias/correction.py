"""A correction: one loss under one release at one width of X, with all that follows from the three.

It derives the corrected loss, compiles its kernels, knows the noise that they are told of and where the correction
exists, and encodes checked records as kernels take them.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import (
    BooleanArray,
    FloatArray,
    IntegerArray,
    column_names,
    features_array,
    is_table,
    label_array,
    parameter_array,
    per_record_scales,
    places_among,
    shown_names,
    truth_as_labels,
)
from symdebias._rows import Rows
from symdebias.codegen.kernels import Kernels
from symdebias.codegen.plain import is_plain
from symdebias.codegen.score.configurations import Configurations
from symdebias.codegen.score.constants import LabelTable
from symdebias.codegen.score.factors import ColumnProduct
from symdebias.codegen.score.normal import RecordNoise
from symdebias.codegen.score.program import ScoreProgram
from symdebias.declared import DeclaredLoss
from symdebias.derivation import (
    Derivation,
    Limits,
    Method,
    Problem,
    Surrogate,
    SurrogateParts,
    Uncorrected,
    in_columns,
    surrogate_parts,
)
from symdebias.exceptions import DerivationLimitError, NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise, ChannelNoise
from symdebias.release import Release
from symdebias.release.design import ColumnDesign
from symdebias.release.groups import labels_of
from symdebias.transforms.surrogate import Design
from symdebias.zonal import ZonalNoise


def columns_to_show(loss: Loss, release: Release) -> int:
    """Return the number of columns of X, or two noised ones where the release does not know it yet."""
    if not loss.scores:
        return len(loss.features)
    known = release.number_of_columns
    return len(release.noiseless) + 2 if known is None else known


@dataclass(frozen=True, eq=False)
class Correction:
    """One loss, corrected by one method for one release, at one width of X."""

    loss: Loss  # The loss as declared.
    release: Release  # The noise.
    method: Method  # How it is corrected.
    columns: int  # The number of columns of X.
    per_record: bool = False  # Whether records have noise scales of their own.
    # Whether kernels sum over categories where factors could be looked up, as Hessians need.
    enumerate_categories: bool = False
    # The release of features and target in one vector that the columns come from; `release` is then that of the
    # columns, `loss` that on them, and `columns` their number.
    collected: Release | None = None

    @classmethod
    def of(
        cls, loss: Loss, release: Release, method: Method, columns: int, *, per_record: bool = False
    ) -> "Correction":
        """Return the correction of a declared loss for a release of so many columns of X, on the columns it comes to.

        Raises
        ------
        NoExactCorrectionError
            A release of one vector hides what the loss needs.
        """
        coupling = release.coupling
        if coupling is None:
            return cls(loss, release, method, columns, per_record)
        on_columns = columns + (coupling.kind == "margin" and coupling.has_column)
        return cls(
            in_columns(loss, release), release.in_columns(columns), method, on_columns, per_record, collected=release
        )

    def by(self, method: Method) -> "Correction":
        """Return the correction of the same loss for the same columns by another method."""
        found = replace(self, method=method)
        # What does not depend on the method is not found out again.
        for name in ("design", "_parts", "uncorrected"):
            if name in vars(self):
                vars(found)[name] = vars(self)[name]
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what determines it; expressions and kernels are made again where it is read, once for all copies."""
        return _rebuilt, (
            self.loss, self.release, self.method, self.columns, self.per_record, self.enumerate_categories,
            self.collected,
        )  # fmt: skip

    # ---- what is derived ---------------------------------------------------------------------------------

    @functools.cached_property
    def derivation(self) -> Derivation:
        """What was derived.

        Raises
        ------
        NoExactCorrectionError
            The method does not apply.
        """
        return self.method.derive(
            Problem(self.loss, self.release, self.columns, self.per_record, self.enumerate_categories)
        )

    @property
    def program(self) -> Any:
        """What kernels compute: a ScoreProgram or a FeatureProgram."""
        return self.derivation.program

    @functools.cached_property
    def kernels(self) -> Kernels:
        """The compiled kernels."""
        return Kernels(self.program)

    @functools.cached_property
    def noise(self) -> FloatArray:
        """What kernels are told of the noise; `program.layout` says what stands where."""
        return self.derivation.program.layout.vector(self.derivation.constants)

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether the loss has neither noise nor categories in it, as one that is not corrected."""
        return is_plain(self.program)

    @functools.cached_property
    def enumerated(self) -> "Correction":
        """The same with sums over categories in place of looked-up factors, which need not have second derivatives."""
        return replace(self, enumerate_categories=True)

    @property
    def is_exact(self) -> bool:
        """Whether the derivation proves the correction exact."""
        return self.derivation.exact

    @property
    def loss_offset(self) -> float:
        """By how much the mean of the corrected loss is off at most; see `CorrectedLoss.loss_offset`."""
        offsets = self.derivation.offsets
        return 0.0 if offsets is None else float(np.abs(offsets).max())

    def offsets_of(self, codes: FloatArray) -> FloatArray:
        """Return how far the mean of the corrected loss is from the loss, for codes of true targets."""
        offsets, values = self.derivation.offsets, self.loss.target_values
        if offsets is None:
            return np.zeros(len(codes))
        noise = self.release.target_noise
        assert isinstance(noise, ChannelNoise)
        assert values is not None
        places = np.searchsorted(values, np.array(noise.inputs)[codes.astype(int)])
        return np.asarray(offsets[places])

    @functools.cached_property
    def uncorrected(self) -> "Correction | None":
        """The loss as it stands on the released records, or None where these are no records of its kind."""
        for _, noise in self.release.noises(self.columns):
            if isinstance(noise, ChannelNoise) and noise.inputs != noise.outputs:
                return None
        target = None if self.release.clips_target else self.release.target_noise
        labels = self.loss.target_values is not None
        if labels and isinstance(target, ChannelNoise) and set(target.inputs) != set(target.outputs):
            return None
        return _as_it_stands(self.loss, self.release, self.columns, self.collected)

    @property
    def features(self) -> int:
        """The number of columns of X."""
        return self.columns - self.has_margin_column

    @property
    def has_margin_column(self) -> bool:
        """Whether the last column is that of the label in a margin release, whose parameter is the intercept."""
        coupling = None if self.collected is None else self.collected.coupling
        return coupling is not None and coupling.kind == "margin" and coupling.has_column

    @property
    def is_of_scores(self) -> bool:
        """Whether kernels compute linear scores, a free-form loss's hidden one included."""
        return isinstance(self.program, ScoreProgram)

    @functools.cached_property
    def is_simple(self) -> bool:
        """Whether it is a loss of one score under normal noise alone."""
        program = self.program
        target = None if self.release.clips_target else self.release.target_noise
        return (
            isinstance(program, ScoreProgram)
            and len(self.loss.scores) == 1
            and not program.has_lookups
            and not any(isinstance(one, (ColumnProduct, Configurations, LabelTable)) for one in program.statistics)
            # An uncorrected loss has no factors of other noise in it.
            and all(
                isinstance(noise, AdditiveNoise) and noise.is_gaussian for _, noise in self.release.noises(self.columns)
            )
            and (not isinstance(target, AdditiveNoise) or target.is_gaussian)
        )

    @property
    def surrogates(self) -> Design | None:
        """The surrogates that stand for the loss, where there are any."""
        return self.method.design if isinstance(self.method, Surrogate) else None

    @property
    def surrogate_parts(self) -> SurrogateParts:
        """The parts of the loss that surrogates stand for; see `CorrectedLoss.surrogate_parts`."""
        if isinstance(self._parts, NoExactCorrectionError):
            raise NoExactCorrectionError(*self._parts.args)
        return self._parts

    @functools.cached_property
    def _parts(self) -> SurrogateParts | NoExactCorrectionError:
        # Each fit asks again, and a refusal takes as long to find as the parts.
        try:
            return surrogate_parts(self.loss, self.release)
        except DerivationLimitError:
            # The next one may be allowed more.
            raise
        except NoExactCorrectionError as refusal:
            return refusal

    @property
    def zonal(self) -> ZonalNoise | None:
        """The zonal noise of a vector of columns, where there is some."""
        return next((group.noise for group in self.design.spherical if isinstance(group.noise, ZonalNoise)), None)

    def designed(self, *, radius: float, score_variance: float, records: float) -> Design:
        """Return surrogates for a range, a noise level and a sample size; see `CorrectedLoss.resolve`."""
        return self.surrogate_parts.design(
            radius=radius, score_variance=score_variance, records=records, zonal=self.zonal
        )

    @property
    def score_level(self) -> float:
        """The noise variance of the score that surrogates were designed for; that of the target comes on top."""
        assert self.surrogates is not None
        noise = self.surrogate_parts.target_noise
        return self.surrogates.score_variance - (0.0 if noise is None else noise.variance)

    @functools.cached_property
    def design(self) -> ColumnDesign:
        """How columns of X enter the scores."""
        return self.release.design(self.columns)

    # ---- parameters --------------------------------------------------------------------------------------

    @property
    def number_of_parameters(self) -> int:
        """The number of entries of theta, all scores together."""
        return int(self.program.number_of_parameters)

    def flat(self, theta: Any) -> FloatArray:
        """Return checked parameters as one vector, scores after one another.

        Parameters
        ----------
        theta : array of shape (q,) or (K, q)
            The parameters.
        """
        scores, names = max(1, len(self.loss.scores)), None
        if not self.loss.scores:
            names = [symbol.name for symbol in self.loss.parameters]
        elif self.release.columns is not None:
            names = list(self.design.parameters)
        return parameter_array(theta, self.number_of_parameters // scores, scores, names).ravel()

    def shaped(self, vectors: FloatArray) -> FloatArray:
        """Return parameters, one score after another, in the user's shape: (..., q) or (..., K, q)."""
        return self.loss.by_score(vectors)

    def penalty(self, l2: float) -> FloatArray:
        """Return l2 for each of the flat parameters, scores after one another, and 0 for intercepts."""
        weights = np.full(self.number_of_parameters, l2)
        weights[self.intercepts] = 0.0
        return weights

    @property
    def intercepts(self) -> IntegerArray:
        """The places of the intercepts among the flat parameters, one for each score; none without them."""
        marked = np.zeros(self.number_of_parameters)
        if self.release.fit_intercept or self.has_margin_column:
            self.shaped(marked)[..., -1] = 1.0
        return np.flatnonzero(marked)

    @functools.cached_property
    def limits(self) -> Limits:
        """Where it exists, and where it has finite variance."""
        noise = self.release.target_noise if self.method.corrects else None
        linear = self.design.linear_covariance if self.is_of_scores and self.method.corrects else np.zeros((0, 0))
        return Limits(self.loss, self.derivation, linear, noise.variance if isinstance(noise, AdditiveNoise) else 0.0)

    def limits_of(self, largest: FloatArray) -> Limits:
        """Return the limits for records with noise of their own.

        What a condition holds for it holds for less noise in any column as well, so that the largest in each is enough.

        Parameters
        ----------
        largest : array of shape (p,), float64
            The largest standard deviation of any record in each column.
        """
        own, covariance = largest[self._columns_of_own_noise] ** 2, self.limits.covariance
        if isinstance(self.program, ScoreProgram):
            variances = covariance.diagonal().copy()
            variances[self._places_of_own_noise] = own
            return self.limits.at(np.diag(variances), {"covariance": variances})
        return self.limits.at(covariance, {"largest": own})

    # ---- the noise of the score --------------------------------------------------------------------------

    def noise_covariance(self, scales: FloatArray | Rows | None = None) -> FloatArray:
        """Return the covariance of the additive noise of X's columns, shape (p, p).

        Parameters
        ----------
        scales : array of shape (n, p), float64, optional
            The records' own standard deviations (see `checked_scales`); their mean variances are then taken.
        """
        covariance = self.design.covariance.copy()
        variances = self.release.feature_variances(self.columns)
        if scales is not None:
            covariance[:] = 0.0
            if isinstance(scales, Rows):
                own = scales.mean_squares()
            else:
                own = np.einsum("ij,ij->j", scales, scales) / len(scales)
            variances = np.where(self._own_noise(), own, variances)
        np.fill_diagonal(covariance, variances)
        return covariance

    @functools.cached_property
    def score_noise(self) -> FloatArray:
        """The matrix whose quadratic form in theta is the noise variance of the score, the same for all records."""
        return self._score_noise_of(self.noise_covariance())

    def _score_noise_of(self, covariance: FloatArray) -> FloatArray:
        return self.design.released_covariance(covariance, as_released=not self.method.corrects)

    def score_variance(self, theta: ArrayLike, scales: FloatArray | Rows | None = None) -> float:
        """Return the noise variance of the score; see `CorrectedLoss.score_variance`."""
        noise = self.score_noise if scales is None else self._score_noise_of(self.noise_covariance(scales))
        scores = np.asarray(theta, dtype=float).reshape(len(self.loss.scores), -1)
        # Rounding alone would make the variance of a channel without noise negative.
        return max(0.0, float(np.max(np.einsum("kj,jl,kl->k", scores, noise, scores))))

    # ---- records -----------------------------------------------------------------------------------------

    def checked_records(self, X: Any, y: Any, *, check_finite: bool = True) -> tuple[FloatArray, FloatArray]:
        """Return released records as checked columns, shape (n, p), and targets, shape (n,).

        Parameters
        ----------
        X : array of shape (n, p) or table
            The released features.
        y : array of shape (n,), or None
            The released targets; None for a margin release without an intercept.
        check_finite : bool
            As for `checked_matrix`.
        """
        if self.collected is not None:
            return self.collected.columns_of(X, y, check_finite=check_finite)
        matrix = self.checked_matrix(X, check_finite=check_finite)
        return matrix, self.checked_target(y, len(matrix))

    def true_records(self, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
        """Return true records as checked columns and targets, in the form of released ones.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features, already centred and scaled.
        y : array of shape (n,)
            True targets.
        """
        release = self.release if self.collected is None else self.collected
        matrix = release.true_matrix(X)
        target = release.true_target(y, rows=len(matrix))
        coupling = release.coupling
        if coupling is None or coupling.kind == "joint":
            return matrix, target
        return coupling.margins(matrix, target), np.ones(len(matrix))

    def checked_matrix(self, X: Any, *, check_finite: bool = True) -> FloatArray:
        """Return released columns in the release's order, codes for categories, shape (n, p), float64.

        Parameters
        ----------
        X : array of shape (n, p) or table
            The released columns.
        check_finite : bool
            False leaves NaN and infinity to a caller that finds them in its own pass.
        """
        matrix = self.release.design_matrix(X, check_finite=check_finite)
        if not self.loss.scores and matrix.shape[1] != len(self.loss.features):
            raise ValueError(
                f"X has {matrix.shape[1]} columns, but the loss has the {len(self.loss.features)} features "
                f"{', '.join(symbol.name for symbol in self.loss.features)}. Pass one column per feature."
            )
        return matrix

    def checked_target(self, y: Any, rows: int) -> FloatArray:
        """Return released targets as checked numbers, shape (n,), float64.

        Parameters
        ----------
        y : array of shape (n,)
            The targets.
        rows : int
            n, the number of records.
        """
        known = self._known_labels()
        target = self.release.released_target(truth_as_labels(y, known), rows=rows, check_finite=known is None)
        return target if known is None else label_array(target, known, rows=rows)

    def target_of_table(self, y: Any, rows: int) -> FloatArray:
        """Return a target that is no plain array as numbers, shape (n,), which `checked_records` takes beside an array.

        Parameters
        ----------
        y : column of a table, list
            The released targets.
        rows : int
            n, the number of records.
        """
        release = self.release if self.collected is None else self.collected
        return release.released_target(truth_as_labels(y, self._known_labels()), rows=rows, check_finite=False)

    def _known_labels(self) -> tuple[float, ...] | None:
        """Return the labels that a released target has, or None where it has any number."""
        if self.release.clips_target:
            return None
        values, noise = self.loss.target_values, self.release.target_noise
        if isinstance(noise, ChannelNoise):
            if self.method.corrects:
                return noise.outputs
            # A continuous target is a true label or a released one.
            return values if values is not None else tuple(sorted({*noise.inputs, *noise.outputs}))
        return values if noise is None else None

    def checked_scales(self, noise_scale: Any, rows: int) -> FloatArray | None:
        """Return the records' own standard deviations of noise, shape (n, p), or None where there are none.

        Parameters
        ----------
        noise_scale : array of shape (n,) or (n, p), table of p columns, or None
            As given by the user; a table is matched by name.
        rows : int
            n, the number of records.
        """
        if noise_scale is None:
            return None
        allowed, columns = self._own_noise(), self.release.columns
        if is_table(noise_scale):
            noise_scale = self._scales_by_name(noise_scale, columns)
        return per_record_scales(noise_scale, allowed, columns, rows=rows)

    @staticmethod
    def _scales_by_name(table: Any, columns: Sequence[str] | None) -> FloatArray:
        """Return the scales of a table in the order of the columns of the release."""
        names = column_names(table)
        if columns is None or len(names) == len(columns) == 1:
            return features_array(table, check_finite=False)
        if set(names) != set(columns):
            raise ValueError(
                f"noise_scale is a table of {shown_names(names)}, and the release has {', '.join(columns)}: which "
                "scales are those of which column would be a guess. Name its columns alike, pass an array of shape "
                "(n, p) in the order of release.columns, or one column for all."
            )
        return features_array(table, columns, check_finite=False)

    def _own_noise(self) -> BooleanArray:
        """Return which columns of X may have noise scales of the records' own."""
        if not self.method.corrects:
            raise ValueError('method="none" corrects no noise. Leave noise_scale out.')
        if self.collected is not None:
            raise ValueError(
                "noise_scale gives each record's own scale of normal noise on features, and this release noises "
                "features and target in one vector. Leave noise_scale out, or release them apart."
            )
        allowed = np.zeros(self.columns, dtype=bool)
        budgets, correlated = [], []
        for (place, noise), (_, mechanism) in zip(self.release.noises(self.columns), self.release.groups, strict=True):
            if isinstance(noise, AdditiveNoise) and noise.is_gaussian:
                allowed[place] = True
                if mechanism.guarantee is not None:
                    budgets.append(repr(mechanism))
                block = self.design.covariance[place, place]
                correlated += [mechanism] if np.any(block - np.diag(np.diag(block))) else []
        if budgets or not allowed.any():
            raise ValueError(
                "noise_scale gives each record's own scale of normal noise, for columns released by "
                "GaussianMechanism.from_scale"
                + (f"; {budgets[0]} has its scale from its budget." if budgets else "; the release has none.")
                + " Leave noise_scale out, or declare known noise."
            )
        if correlated:
            raise ValueError(
                f"noise_scale gives scales of independent noise, and that of {correlated[0]!r} is correlated. Average "
                "as many measurements of each record and declare their covariance, or declare independent noise."
            )
        return allowed

    def codes_of_targets(self, target: FloatArray) -> IntegerArray:
        """Return the codes of released targets that take finitely many values, in the order of looked-up numbers."""
        noise = self.release.target_noise if self.method.corrects else None
        values = noise.outputs if isinstance(noise, ChannelNoise) else self.loss.target_values
        assert values is not None
        return places_among(values, target)

    def targets_of_codes(self, codes: FloatArray) -> FloatArray:
        """Return the values of released targets from the codes of a channel's outputs; others as they are."""
        noise = self.release.target_noise
        if not isinstance(noise, ChannelNoise):
            return codes
        values: FloatArray = np.array(noise.outputs)[codes.astype(int)]
        return values

    def encoded_target(self, target: FloatArray) -> FloatArray:
        """Return checked targets as kernels take them: as they are, or codes of them."""
        return self.codes_of_targets(target).astype(float) if self.program.codes else target

    def encode(
        self, matrix: FloatArray, target: FloatArray, scales: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return checked records as kernels take them.

        Parameters
        ----------
        matrix : array of shape (n, p), float64
            Columns in the release's order, codes in columns of categories.
        target : array of shape (n,), float64
            Values of the target.
        scales : array of shape (n, p), float64, optional
            Standard deviations of the records' own noise.

        Returns
        -------
        matrix : array of shape (n, width), float64
            `matrix` itself where it has no categories. Otherwise the linear columns, the codes of categories (one for
            all where they are enumerated), and the records' own noise variances.
        target : array of shape (n,), float64
            The targets, or codes of them.
        """
        program = self.program
        target = self.encoded_target(target)
        if not isinstance(program, ScoreProgram):
            return self._encoded_features(matrix, scales), target
        design = self.design
        if self.derivation.dense:
            if not design.categorical:
                return matrix, target
            dense = design.rows(matrix)
            kept = [place for place in range(dense.shape[1]) if place != program.columns.intercept]
            return np.ascontiguousarray(dense[:, kept]), target
        enumerated = bool(program.having(Configurations))
        if not (design.categorical or enumerated) and scales is None:
            return matrix, target
        parts = [matrix[:, design.linear_columns]]
        if enumerated:
            joint = np.zeros(len(matrix))
            for column in design.categorical:
                joint = joint * len(column.noise.outputs) + matrix[:, column.column]
            parts.append(joint[:, None])
        else:
            parts.append(matrix[:, [column.column for column in design.categorical]])
        if scales is not None:
            parts.append(scales[:, self._columns_of_own_noise] ** 2)
        return np.ascontiguousarray(np.concatenate(parts, axis=1)), target

    def makes_rows(self, per_record: bool) -> bool:
        """Whether kernels take other rows than the columns of X: with codes of categories or variances of their own."""
        return per_record or bool(labels_of(self.release.groups, "sent"))

    def _encoded_features(self, matrix: FloatArray, scales: FloatArray | None) -> FloatArray:
        if not self.method.corrects:
            return DeclaredLoss(self.loss, self.release).features(matrix)
        if scales is None:
            return matrix
        return np.ascontiguousarray(np.concatenate([matrix, scales[:, self._columns_of_own_noise] ** 2], axis=1))

    @property
    def _places_of_own_noise(self) -> list[int]:
        """The places among the linear columns of those with noise variances of the records' own."""
        return [place for noise in self.program.having(RecordNoise) for place in noise.noisy]

    @property
    def _columns_of_own_noise(self) -> list[int]:
        """The columns of X with noise variances of the records' own, in the order in which kernels take these."""
        if isinstance(self.program, ScoreProgram):
            return [self.design.linear[place].column for place in self._places_of_own_noise]
        return [
            column
            for place, noise in self.release.noises(self.columns)
            if isinstance(noise, AdditiveNoise) and noise.is_gaussian
            for column in range(place.start, place.stop)
        ]


@functools.lru_cache(maxsize=64)
def _rebuilt(*fields: Any) -> Correction:
    """Return a correction from its fields; one for all copies, which a pool receives with every task."""
    return Correction(*fields)


@functools.lru_cache(maxsize=64)
def _as_it_stands(loss: Loss, release: Release, columns: int, collected: Release | None) -> Correction:
    """Return the uncorrected loss: the same for all corrections, and with the kernels that were compiled for it."""
    return Correction(loss, release, Uncorrected(), columns, collected=collected)
