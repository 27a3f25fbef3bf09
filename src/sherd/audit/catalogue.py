"""Every measure the audit knows: definition, range, meaning, label. The documentation's source.

``docs/reference/measures.md`` lists the same, by test.
"""

from __future__ import annotations

from sherd.audit.measure import Better, Label, Side, Spec

_U, _R, _P = Side.UTILITY, Side.RISK, Side.PROMISE
_HIGHER, _PUBLIC = Better.HIGHER, Label.PUBLISHABLE

_UTILITY = (
    Spec(
        code="mean-sse",
        title="Mean squared error of a record",
        side=_U,
        definition="mean over records of dist², dist = (1/l)·sqrt(Σ (d/σ)²), d the difference of "
        "numbers or of ranks, σ the standard deviation in the original",
        range="0 to ∞",
        meaning="how far a released record lies from its original; 2/l is what shuffling gives",
        needs=("rows", "pairs"),
    ),
    Spec(
        code="il1s",
        title="IL1s information loss",
        side=_U,
        definition="mean over cells of |d| / (√2·σ)",
        range="0 to ∞",
        meaning="average shift of a cell, in units of the spread between two random records",
        needs=("rows", "pairs"),
    ),
    Spec(
        code="marginals-1",
        title="Distance of single distributions",
        side=_U,
        definition="total variation distance of each attribute's distribution, averaged; numbers "
        "in ten classes of equal frequency",
        range="0 to 1",
        meaning="share of records that would have to change class to make the distributions equal",
    ),
    Spec(
        code="marginals-2",
        title="Distance of distributions of pairs",
        side=_U,
        definition="the same for all pairs of attributes; numbers in ten classes",
        range="0 to 1",
        meaning="whether pairs of attributes still occur together as they did",
    ),
    Spec(
        code="marginals-3",
        title="Distance of distributions of triples",
        side=_U,
        definition="the same for triples of attributes (a sample of them); numbers in five classes",
        range="0 to 1",
        meaning="whether triples of attributes still occur together as they did",
    ),
    Spec(
        code="associations",
        title="Change of associations",
        side=_U,
        definition="mean absolute change over all pairs of attributes of Pearson's correlation "
        "(two numbers) or Cramér's V (otherwise, numbers in ten classes)",
        range="0 to 2",
        meaning="how far correlations and dependencies are off on average",
    ),
    Spec(
        code="means",
        title="Change of means",
        side=_U,
        definition="mean over attributes of |mean released − mean original| / σ",
        range="0 to ∞",
        meaning="how far averages are off, in standard deviations",
    ),
    Spec(
        code="variances",
        title="Change of variances",
        side=_U,
        definition="mean over attributes of |log2(variance released / variance original)|",
        range="0 to ∞",
        meaning="1 means that spread is off by a factor of 2 in variance",
    ),
    Spec(
        code="quantiles",
        title="Change of quantiles",
        side=_U,
        definition="mean over attributes and the 5, 25, 50, 75 and 95 % quantiles of the absolute "
        "difference, in σ",
        range="0 to ∞",
        meaning="how far the shape of distributions is off",
    ),
    Spec(
        code="queries",
        title="Error of counting queries",
        side=_U,
        definition="median over random range queries on 2 or 3 attributes, each true for about "
        "10 % of records, of |released − true| / max(true, 1 % of records)",
        range="0 to ∞",
        meaning="typical error of an analyst's count, relative to the true count",
    ),
    Spec(
        code="pmse",
        title="Propensity score error (pMSE)",
        side=_U,
        definition="mean squared distance from ½ of the probability that a random forest, tested "
        "on records it was not trained on, gives to 'this record is released'",
        range="0 to 0.25",
        meaning="0: nobody can tell released records from originals; 0.25: everybody can",
    ),
    Spec(
        code="distinguishable",
        title="Released told from original",
        side=_U,
        definition="area under the curve of the same model",
        range="0 to 1",
        meaning="chance that the model ranks a released record above an original one; ½: it cannot "
        "tell them apart",
    ),
    Spec(
        code="forest-accuracy",
        title="Random forest: accuracy",
        side=_U,
        definition="accuracy on original test records of a random forest trained on the release",
        range="0 to 1",
        meaning="whether models trained on the release work on real people",
        better=_HIGHER,
        needs=("target",),
    ),
    Spec(
        code="forest-f",
        title="Random forest: F-measure",
        side=_U,
        definition="macro-averaged F-measure of the same forest",
        range="0 to 1",
        meaning="the same, with rare classes counting as much as frequent ones",
        better=_HIGHER,
        needs=("target",),
    ),
    Spec(
        code="tree-accuracy",
        title="Decision tree: accuracy",
        side=_U,
        definition="accuracy on original test records of a decision tree trained on the release",
        range="0 to 1",
        meaning="the same for a single tree",
        better=_HIGHER,
        needs=("target",),
    ),
    Spec(
        code="tree-f",
        title="Decision tree: F-measure",
        side=_U,
        definition="macro-averaged F-measure of the same tree",
        range="0 to 1",
        meaning="the same, with rare classes counting as much as frequent ones",
        better=_HIGHER,
        needs=("target",),
    ),
    Spec(
        code="forest-r2",
        title="Random forest: explained variance",
        side=_U,
        definition="R² on original test records of a regression forest trained on the release",
        range="−∞ to 1",
        meaning="whether models trained on the release predict a number of real people",
        better=_HIGHER,
        needs=("target",),
    ),
    Spec(
        code="ncp",
        title="Generalisation (NCP)",
        side=_U,
        definition="normalised certainty penalty: mean over cells of the width of the released "
        "range or group as a share of the attribute's whole range or list",
        range="0 to 1",
        meaning="0: every cell exact; 1: every cell says nothing",
        label=_PUBLIC,
    ),
    Spec(
        code="discernibility",
        title="Discernibility",
        side=_U,
        definition="mean size of the group of records with equal quasi-identifiers, as a share of "
        "all records",
        range="1/n to 1",
        meaning="how coarse the groups are that an analyst can tell apart",
        label=_PUBLIC,
    ),
    Spec(
        code="suppressed",
        title="Suppressed cells",
        side=_U,
        definition="share of cells that are missing in the release and were not in the original",
        range="0 to 1",
        meaning="how much was left out altogether",
    ),
)

_RISK = (
    Spec(
        code="unchanged",
        title="Cells released unchanged",
        side=_R,
        definition="share of protected cells whose released value equals the original",
        range="0 to 1",
        meaning="these cells are the originals; the baseline is what shuffled rows would give",
        needs=("rows", "pairs"),
    ),
    Spec(
        code="linkage",
        title="Re-identification by distance",
        side=_R,
        definition="share of released records whose nearest original, all attributes known, is "
        "their own (ties drawn by lot)",
        range="1/n to 1",
        meaning="somebody who knows a person's true values finds their record this often",
        needs=("rows", "pairs"),
    ),
    Spec(
        code="linkage-known",
        title="Re-identification, 5 % of records known",
        side=_R,
        definition="the same by somebody who knows 5 % of the pairs, has learnt from them how far "
        "each attribute can be trusted, and rules those records out",
        range="1/n to 1",
        meaning="how much an insider's partial knowledge helps",
        needs=("rows", "pairs"),
    ),
    Spec(
        code="reconstruction",
        title="Reconstruction by one who knows all others",
        side=_R,
        definition="share of cells recovered to within 1 % of the attribute's range (labels: "
        "exactly) from the released value, its cluster, and every other record",
        range="0 to 1",
        meaning="the worst case that differential privacy speaks of; the baseline guesses the "
        "median of the others",
        needs=("rows", "pairs"),
    ),
    Spec(
        code="co-cluster",
        title="Closeness given away by equal cells",
        side=_R,
        definition="share of pairs of rows with the same released value whose originals lie within "
        "1 % of the records in rank, averaged over attributes",
        range="0 to 1",
        meaning="what the row structure gives away: two people known to be close in a value",
        needs=("rows", "pairs"),
    ),
    Spec(
        code="interval",
        title="Interval disclosure",
        side=_R,
        definition="share of cells whose original lies within ± p/2 % of the records, in rank, "
        "around the released value, averaged over p = 1 … 10",
        range="0 to 1",
        meaning="how tightly a released value pins down the original",
        needs=("rows", "pairs"),
    ),
    Spec(
        code="unique",
        title="Unique released records",
        side=_R,
        definition="share of released records whose quasi-identifiers no other released record has",
        range="0 to 1",
        meaning="records that stand alone; dangerous where released values are true",
        label=_PUBLIC,
    ),
    Spec(
        code="prosecutor",
        title="Prosecutor risk",
        side=_R,
        definition="1 / size of the smallest group of equal quasi-identifiers in the release",
        range="1/n to 1",
        meaning="worst chance of re-identifying somebody known to be in the release, if released "
        "values were true",
        label=_PUBLIC,
    ),
    Spec(
        code="marketer",
        title="Marketer risk",
        side=_R,
        definition="number of groups of equal quasi-identifiers / number of released records",
        range="1/n to 1",
        meaning="average share of records re-identified by matching on released values",
        label=_PUBLIC,
    ),
    Spec(
        code="journalist",
        title="Journalist risk",
        side=_R,
        definition="mean over released records of 1 / number of original (and hold-out) records "
        "with the same quasi-identifiers, 0 where there is none",
        range="0 to 1",
        meaning="average chance of re-identifying a record against a register of the population",
        needs=("rows",),
    ),
    Spec(
        code="singling-out",
        title="Singling out",
        side=_R,
        definition="share of predicates built from the release, each true for one released record, "
        "that are true for exactly one original",
        range="0 to 1",
        meaning="an attacker isolates one real person this often; the baseline is the same on "
        "people who took no part",
        needs=("control",),
    ),
    Spec(
        code="linkability",
        title="Linkability",
        side=_R,
        definition="share of persons whose two halves of attributes, held by two databases, both "
        "have the same released record among their 5 nearest",
        range="0 to 1",
        meaning="the release helps to join two databases about a person",
        needs=("control",),
    ),
    Spec(
        code="inference",
        title="Inference of a secret",
        side=_R,
        definition="share of persons whose value of an attribute is guessed (labels exactly, "
        "numbers within 5 % of the range) from the released record nearest in all others, "
        "averaged over attributes",
        range="0 to 1",
        meaning="what the release tells about a person in it, over one not in it",
        needs=("control",),
    ),
    Spec(
        code="membership",
        title="Membership inference",
        side=_R,
        definition="advantage (true minus false positive rate) of a threshold on the distance to "
        "the nearest released record, chosen on one half of the persons and tested on the other",
        range="−1 to 1",
        meaning="0: nobody can tell who is in the release; 1: everybody can",
        needs=("control",),
    ),
    Spec(
        code="nearest-ratio",
        title="Nearest-neighbour distance ratio",
        side=_R,
        definition="median of d1/d2, the distances of a person to the nearest and second nearest "
        "released record",
        range="0 to 1",
        meaning="well below the baseline (people not in the release): released records are copies "
        "of real ones",
        better=_HIGHER,
        needs=("control",),
    ),
    Spec(
        code="insider",
        title="What one owner learns of another",
        side=_R,
        definition="share of the other owners' cells recovered to within 1 % of the range (labels: "
        "exactly) by an owner who knows its own part and the released rows of its people; the "
        "baseline is a model on the owner's own columns",
        range="0 to 1",
        meaning="what taking part in a joint release costs against the other participants",
        needs=("rows", "pairs"),
    ),
)

_PROMISE = (
    Spec(
        code="epsilon-frozen",
        title="Measured ε, noise of the actual table",
        side=_P,
        definition="95 % lower bound of the privacy loss between a worst-case table and its worst "
        "neighbour, clusters made anew, both with the noise scales of the first",
        range="0 to ∞",
        meaning="above the claim: the promise does not hold once clusters are made anew",
        label=_PUBLIC,
        needs=("run",),
    ),
    Spec(
        code="epsilon-recomputed",
        title="Measured ε, real runs",
        side=_P,
        definition="the same with the method really run on both tables, clusters and scales anew",
        range="0 to ∞",
        meaning="what an attacker who compares real runs can tell; the claim of differential "
        "privacy must bound it, individual differential privacy does not try to",
        label=_PUBLIC,
        needs=("run",),
    ),
    Spec(
        code="loss-factor",
        title="Exact loss on this table",
        side=_P,
        definition="ε that the ordered centroids of this very table spend when the worst record "
        "changes and clusters are made anew, under this table's noise",
        range="0 to ∞",
        meaning="above the claimed ε: the claim rests on taking the clusters as public",
        needs=("run",),
    ),
)

CATALOGUE: dict[str, Spec] = {spec.code: spec for spec in (*_UTILITY, *_RISK, *_PROMISE)}
"""Every measure by its code, in the order of the report."""
