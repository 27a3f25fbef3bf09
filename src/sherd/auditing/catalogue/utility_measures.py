"""Measures of what a release is worth."""

from __future__ import annotations

from functools import partial

from sherd.auditing.verdict.measure import Better, Label, Side, Spec

_utility = partial(Spec, side=Side.UTILITY)

UTILITY: tuple[Spec, ...] = (
    _utility(
        code="mean-sse",
        title="Mean squared error of a record",
        definition="mean over records of dist², dist = (1/l)·sqrt(Σ (d/σ)²), d the difference of "
        "numbers or of ranks, σ the standard deviation in the original",
        range="0 to ∞",
        meaning="how far a released record lies from its original; 2/l is what shuffling gives",
        needs=("rows", "pairs"),
    ),
    _utility(
        code="il1s",
        title="IL1s information loss",
        definition="mean over cells of |d| / (√2·σ)",
        range="0 to ∞",
        meaning="average shift of a cell, in units of the spread between two random records",
        needs=("rows", "pairs"),
    ),
    _utility(
        code="marginals-1",
        title="Distance of single distributions",
        definition="total variation distance of each attribute's distribution, averaged; numbers "
        "in ten classes of equal frequency",
        meaning="share of records that would have to change class to make the distributions equal",
    ),
    _utility(
        code="marginals-2",
        title="Distance of distributions of pairs",
        definition="the same for all pairs of attributes; numbers in ten classes",
        meaning="whether pairs of attributes still occur together as they did",
    ),
    _utility(
        code="marginals-3",
        title="Distance of distributions of triples",
        definition="the same for triples of attributes (a sample of them); numbers in five classes",
        meaning="whether triples of attributes still occur together as they did",
    ),
    _utility(
        code="associations",
        title="Change of associations",
        definition="mean absolute change over all pairs of attributes of Pearson's correlation "
        "(two numbers) or Cramér's V (otherwise, numbers in ten classes), over the records that "
        "have both values",
        range="0 to 2",
        meaning="how far correlations and dependencies are off on average",
    ),
    _utility(
        code="means",
        title="Change of means",
        definition="mean over attributes of |mean released − mean original| / σ",
        range="0 to ∞",
        meaning="how far averages are off, in standard deviations",
    ),
    _utility(
        code="variances",
        title="Change of variances",
        definition="mean over attributes of |log2(variance released / variance original)|",
        range="0 to ∞",
        meaning="1 means that spread is off by a factor of 2 in variance",
    ),
    _utility(
        code="quantiles",
        title="Change of quantiles",
        definition="mean over attributes and the 5, 25, 50, 75 and 95 % quantiles of the absolute "
        "difference, in σ",
        range="0 to ∞",
        meaning="how far the shape of distributions is off",
    ),
    _utility(
        code="queries",
        title="Error of counting queries",
        definition="median over random range queries on 2 or 3 attributes, each true for about "
        "10 % of records, of |released − true| / max(true, 1 % of records)",
        range="0 to ∞",
        meaning="typical error of an analyst's count, relative to the true count",
    ),
    _utility(
        code="association-utility",
        title="What the association is worth",
        definition="1 − mean |with − true| / mean |without − true| over random counting queries "
        "that ask about several fragments, answered with and without the association",
        range="−∞ to 1",
        meaning="1: the association answers them exactly; 0: no better than the fragments alone",
        better=Better.HIGHER,
    ),
    _utility(
        code="pmse",
        title="Propensity score error (pMSE)",
        definition="mean squared distance from ½ of the probability that a random forest, tested "
        "on records it was not trained on, gives to 'this record is released'",
        range="0 to 0.25",
        meaning="0: nobody can tell released records from originals; 0.25: everybody can",
    ),
    _utility(
        code="distinguishable",
        title="How easily released records can be told from originals",
        definition="area under the ROC curve of the same random forest",
        meaning="chance that the forest recognises the released one of two records, one released "
        "and one original; ½: it can only guess",
    ),
    _utility(
        code="forest-accuracy",
        title="Random forest: accuracy",
        definition="accuracy on original test records of a random forest trained on the release",
        meaning="whether models trained on the release work on real people",
        better=Better.HIGHER,
        needs=("target",),
    ),
    _utility(
        code="forest-f",
        title="Random forest: F-measure",
        definition="macro-averaged F-measure of the same forest",
        meaning="the same, with rare classes counting as much as frequent ones",
        better=Better.HIGHER,
        needs=("target",),
    ),
    _utility(
        code="tree-accuracy",
        title="Decision tree: accuracy",
        definition="accuracy on original test records of a decision tree trained on the release",
        meaning="the same for a single tree",
        better=Better.HIGHER,
        needs=("target",),
    ),
    _utility(
        code="tree-f",
        title="Decision tree: F-measure",
        definition="macro-averaged F-measure of the same tree",
        meaning="the same, with rare classes counting as much as frequent ones",
        better=Better.HIGHER,
        needs=("target",),
    ),
    _utility(
        code="forest-r2",
        title="Random forest: explained variance",
        definition="R² on original test records of a regression forest trained on the release",
        range="−∞ to 1",
        meaning="whether models trained on the release predict a number of real people",
        better=Better.HIGHER,
        needs=("target",),
    ),
    _utility(
        code="ncp",
        title="Generalisation (NCP)",
        definition="normalised certainty penalty: mean over cells of the width of the released "
        "range or group as a share of the attribute's whole range or list",
        meaning="0: every cell exact; 1: every cell says nothing",
        label=Label.PUBLISHABLE,
    ),
    _utility(
        code="discernibility",
        title="Discernibility",
        definition="mean size of the group of records with equal quasi-identifiers, as a share of "
        "all records",
        range="1/n to 1",
        meaning="how coarse the groups are that an analyst can tell apart",
        label=Label.PUBLISHABLE,
    ),
    _utility(
        code="suppressed",
        title="Suppressed cells",
        definition="share of cells that are missing in the release and were not in the original",
        meaning="how much was left out altogether",
    ),
    _utility(
        code="clamped",
        title="Clamped cells",
        definition="share of the original's protected cells that lie outside their declared domain "
        "and were moved to its end",
        meaning="well above 0: the schema's domains may be wrong",
    ),
    _utility(
        code="recoded",
        title="Recoded cells",
        definition="share of the original's protected cells that were missing or not declared and "
        "took the value that the schema names for that",
        meaning="these cells say what the schema says, not what the data said",
    ),
    _utility(
        code="dropped",
        title="Dropped records",
        definition="share of the original's records that the schema's policies dropped before the "
        "method saw them",
        meaning="people who are not in the release; by part: the attribute that dropped them",
    ),
    _utility(
        code="left-out",
        title="Records left out by the method",
        definition="share of the records given to the method that the release does not hold",
        meaning="people whom the method could not place without breaking its promise",
    ),
)
