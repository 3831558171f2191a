"""SymPy functions that evaluate without overflow where their textbook forms do not.

They stand in expressions in place of their textbook forms, differentiate into one another, and are
printed as calls of the functions of the same name in `elementary`.
"""

from typing import Any

import sympy as sp

# Up to this power of an argument Hermite polynomials are written out.
LOW_POWER = 8


class expit(sp.Function):
    """The logistic function 1/(1 + exp(-x)).

    An argument with a leading minus sign is turned round, expit(-x) = 1 - expit(x), so that both signs
    of a margin share one evaluation.
    """

    nargs = 1
    is_extended_real = True

    @classmethod
    def eval(cls, argument: sp.Expr) -> sp.Expr | None:
        """Return the value at 0, and turn the argument's sign round where it leads with a minus."""
        if argument.is_zero:
            return sp.Rational(1, 2)
        if argument.could_extract_minus_sign():
            return 1 - cls(-argument)
        return None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative by the given argument."""
        return self * (1 - self)

    def _eval_rewrite_as_exp(self, argument: sp.Expr, **_: Any) -> sp.Expr:
        return 1 / (1 + sp.exp(-argument))


class softplus(sp.Function):
    """The smooth positive part log(1 + exp(x)); softplus(-x) = softplus(x) - x."""

    nargs = 1
    is_extended_real = True

    @classmethod
    def eval(cls, argument: sp.Expr) -> sp.Expr | None:
        """Return the value at 0, and turn the argument's sign round where it leads with a minus."""
        if argument.is_zero:
            return sp.log(2)
        if argument.could_extract_minus_sign():
            return cls(-argument) + argument
        return None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative by the given argument."""
        return expit(self.args[0])

    def _eval_rewrite_as_exp(self, argument: sp.Expr, **_: Any) -> sp.Expr:
        return sp.log(1 + sp.exp(argument))


class logistic_density(sp.Function):
    """The density of the logistic distribution, expit(x) (1 - expit(x)); even in x."""

    nargs = 1
    is_extended_real = True

    @classmethod
    def eval(cls, argument: sp.Expr) -> sp.Expr | None:
        """Turn the argument's sign round where it leads with a minus."""
        return cls(-argument) if argument.could_extract_minus_sign() else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative by the given argument."""
        return self * (1 - 2 * expit(self.args[0]))

    def _eval_rewrite_as_exp(self, argument: sp.Expr, **_: Any) -> sp.Expr:
        return sp.exp(-argument) / (1 + sp.exp(-argument)) ** 2


class largest(sp.Function):
    """The largest of the arguments. SymPy's own compares them all whenever it is built, which takes seconds of many."""

    is_extended_real = True


class logsumexp(sp.Function):
    """log(exp(x_1) + ... + exp(x_m))."""

    is_extended_real = True

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative by the given argument."""
        return softmax_part(sp.Integer(argindex - 1), *self.args)


class softmax_part(sp.Function):
    """exp(x_k)/(exp(x_1) + ... + exp(x_m)); the first argument is k - 1."""

    is_extended_real = True

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative by the given argument, the first x being number 2."""
        place, *arguments = self.args
        same = 1 if argindex - 2 == place else 0
        return self * (same - softmax_part(sp.Integer(argindex - 2), *arguments))


class log_normal_cdf(sp.Function):
    """The logarithm of the standard normal distribution function, log Phi(x)."""

    nargs = 1
    is_extended_real = True

    @classmethod
    def eval(cls, argument: sp.Expr) -> sp.Expr | None:
        """Return the value at 0."""
        return -sp.log(2) if argument.is_zero else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative by the given argument."""
        return inverse_mills(self.args[0])

    def _eval_rewrite_as_erfc(self, x: sp.Expr, **_: Any) -> sp.Expr:
        return sp.log(sp.erfc(-x / sp.sqrt(2)) / 2)

    def _eval_evalf(self, prec: int) -> sp.Expr:
        return self._eval_rewrite_as_erfc(self.args[0])._eval_evalf(prec)


class inverse_mills(sp.Function):
    """The inverse Mills ratio phi(x)/Phi(x), the derivative of log Phi: 0 far right and close to -x far left."""

    nargs = 1
    is_extended_real = True
    is_extended_nonnegative = True

    @classmethod
    def eval(cls, argument: sp.Expr) -> sp.Expr | None:
        """Return the value at 0."""
        return sp.sqrt(2 / sp.pi) if argument.is_zero else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative by the given argument."""
        # Far left x + phi/Phi cancels to 1/|x|: it has a function of its own.
        return -self * mills_excess(self.args[0])

    def _eval_rewrite_as_erfc(self, x: sp.Expr, **_: Any) -> sp.Expr:
        return sp.sqrt(2 / sp.pi) * sp.exp(-(x**2) / 2) / sp.erfc(-x / sp.sqrt(2))

    def _eval_evalf(self, prec: int) -> sp.Expr:
        return self._eval_rewrite_as_erfc(self.args[0])._eval_evalf(prec)


class mills_excess(sp.Function):
    """The inverse Mills ratio plus its argument, x + phi(x)/Phi(x): close to x far right and to 1/|x| far left."""

    nargs = 1
    is_extended_real = True
    is_extended_nonnegative = True

    @classmethod
    def eval(cls, argument: sp.Expr) -> sp.Expr | None:
        """Return the value at 0."""
        return sp.sqrt(2 / sp.pi) if argument.is_zero else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative by the given argument."""
        return 1 - inverse_mills(self.args[0]) * self

    def _eval_rewrite_as_erfc(self, x: sp.Expr, **_: Any) -> sp.Expr:
        return x + sp.sqrt(2 / sp.pi) * sp.exp(-(x**2) / 2) / sp.erfc(-x / sp.sqrt(2))

    def _eval_evalf(self, prec: int) -> sp.Expr:
        # Far left as many digits cancel as x^2 has.
        more = prec + 2 * max(0, int(sp.log(1 + abs(self.args[0].evalf(15)), 2).evalf(15)) + 4)
        return self._eval_rewrite_as_erfc(self.args[0])._eval_evalf(more)._eval_evalf(prec)


class erf_real(sp.Function):
    """The real part of erf(x + iy)."""

    nargs = 2
    is_extended_real = True

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative by the given argument."""
        x, y = self.args
        slope = 2 / sp.sqrt(sp.pi) * sp.exp(y**2 - x**2)
        # erf' = 2/sqrt(pi) exp(-(x + iy)^2), and by Cauchy-Riemann the y-derivative is -Im erf'
        return slope * (sp.cos(2 * x * y) if argindex == 1 else sp.sin(2 * x * y))

    def _eval_rewrite_as_erf(self, x: sp.Expr, y: sp.Expr, **_: Any) -> sp.Expr:
        return sp.re(sp.erf(x + sp.I * y))


class erf_imag(sp.Function):
    """The imaginary part of erf(x + iy)."""

    nargs = 2
    is_extended_real = True

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative by the given argument."""
        x, y = self.args
        slope = 2 / sp.sqrt(sp.pi) * sp.exp(y**2 - x**2)
        return slope * (-sp.sin(2 * x * y) if argindex == 1 else sp.cos(2 * x * y))

    def _eval_rewrite_as_erf(self, x: sp.Expr, y: sp.Expr, **_: Any) -> sp.Expr:
        return sp.im(sp.erf(x + sp.I * y))


class heat_power(sp.Function):
    r"""The Hermite polynomial :math:`v^{n/2} He_n(w/\sqrt v)` of the arguments (n, w, v): what undoes noise on w^n.

    :math:`E\, h_n(w + N(0, v), v) = w^n`; for negative v it is the mean of (w + N(0, -v))^n. Written out it is a sum of
    alternating signs, which cancels 9 digits at n = 45; the recurrence :math:`h_{k+1} = w h_k - k v h_{k-1}` of
    `elementary` cancels none of the largest values nearby.
    """

    nargs = 3
    is_extended_real = True

    @classmethod
    def eval(cls, power: sp.Expr, argument: sp.Expr, variance: sp.Expr) -> sp.Expr | None:
        """Write low powers out."""
        low = power.is_Integer and power <= LOW_POWER
        return cls._written_out(power, argument, variance) if low else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative by the given argument, the argument or the variance."""
        n, w, v = self.args
        if argindex == 2:
            return n * heat_power(n - 1, w, v)
        # The heat equation: the derivative by the variance is half the second one by the argument, negated.
        return -n * (n - 1) / 2 * heat_power(n - 2, w, v)

    def written_out(self) -> sp.Expr:
        """Return the sum of powers."""
        return self._written_out(*self.args)

    def _eval_evalf(self, prec: int) -> sp.Expr:
        before, now = sp.Integer(1), self.args[1]._eval_evalf(prec)
        w, v = now, self.args[2]._eval_evalf(prec)
        for k in range(1, int(self.args[0])):
            before, now = now, w * now - k * v * before
        return now

    @staticmethod
    def _written_out(power: sp.Expr, argument: sp.Expr, variance: sp.Expr) -> sp.Expr:
        # The sum over j of n!/(j! (n - 2j)!) (-v/2)^j w^(n - 2j).
        terms, coefficient, n = [], sp.Integer(1), int(power)
        for j in range(n // 2 + 1):
            terms.append(coefficient * variance**j * argument ** (n - 2 * j))
            coefficient *= -sp.Rational((n - 2 * j) * (n - 2 * j - 1), 2 * (j + 1))
        return sp.Add(*terms)
