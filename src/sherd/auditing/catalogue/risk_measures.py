"""Measures of what a release gives away."""

from __future__ import annotations

from functools import partial

from sherd.auditing.verdict.measure import Better, Label, Side, Spec

_risk = partial(Spec, side=Side.RISK)
_released = partial(_risk, label=Label.PUBLISHABLE)  # computed from the release alone

RISK: tuple[Spec, ...] = (
    _risk(
        code="cluster-linkage-known",
        title="Re-identification by row structure, 5 % of records known",
        definition="share of released records whose most likely original, by the clusters that "
        "their cells share with other rows, is their own; which released value belongs to which "
        "cluster is learnt from 5 % of the pairs (ties drawn by lot)",
        range="1/n to 1",
        meaning="what no noise hides: rows with equal values lay in one cluster, so a person is "
        "the vector of their clusters",
        needs=("rows", "clusters", "matched"),
    ),
    _risk(
        code="cluster-linkage",
        title="Re-identification by row structure alone",
        definition="the same without a known pair: which released value belongs to which cluster "
        "is learnt by expectation-maximisation from the release and the originals",
        range="1/n to 1",
        meaning="the same by somebody who knows nobody's row",
        needs=("rows", "clusters", "matched"),
    ),
    _risk(
        code="unchanged",
        title="Cells released unchanged",
        definition="share of protected cells whose released value equals the original",
        meaning="these cells are the originals; the baseline is what shuffled rows would give",
        needs=("rows", "pairs"),
    ),
    _risk(
        code="linkage",
        title="Re-identification by distance",
        definition="share of released records whose nearest original, all attributes known, is "
        "their own (ties drawn by lot)",
        range="1/n to 1",
        meaning="somebody who knows a person's true values finds their record this often",
        needs=("rows", "pairs"),
    ),
    _risk(
        code="linkage-known",
        title="Re-identification, 5 % of records known",
        definition="the same by somebody who knows 5 % of the pairs, has learnt from them how far "
        "each attribute can be trusted, and rules those records out",
        range="1/n to 1",
        meaning="how much an insider's partial knowledge helps",
        needs=("rows", "pairs"),
    ),
    _risk(
        code="reconstruction",
        title="Reconstruction by one who knows all others",
        definition="share of cells recovered to within 1 % of the attribute's range (labels: "
        "exactly) from the released value, its cluster, and every other record",
        meaning="the worst case that differential privacy speaks of; the baseline guesses the "
        "median of the others",
        needs=("rows", "pairs"),
    ),
    _risk(
        code="co-cluster",
        title="Closeness given away by equal cells",
        definition="share of pairs of rows with the same released value whose originals lie within "
        "1 % of the records in rank, averaged over attributes",
        meaning="what the row structure gives away: two people known to be close in a value",
        needs=("rows", "pairs"),
    ),
    _risk(
        code="interval",
        title="Interval disclosure",
        definition="share of cells whose original lies within ± p/2 % of the records, in rank, "
        "around the released value, averaged over p = 1 … 10",
        meaning="how tightly a released value pins down the original",
        needs=("rows", "pairs"),
    ),
    _released(
        code="unique",
        title="Unique released records",
        definition="share of released records whose quasi-identifiers no other released record has",
        meaning="records that stand alone; dangerous where released values are true",
    ),
    _released(
        code="prosecutor",
        title="Prosecutor risk",
        definition="1 / size of the smallest group of equal quasi-identifiers in the release",
        range="1/n to 1",
        meaning="worst chance of re-identifying somebody known to be in the release, if released "
        "values were true",
    ),
    _released(
        code="marketer",
        title="Marketer risk",
        definition="number of groups of equal quasi-identifiers / number of released records",
        range="1/n to 1",
        meaning="average share of records re-identified by matching on released values",
    ),
    _risk(
        code="journalist",
        title="Journalist risk",
        definition="mean over released records of 1 / number of original (and hold-out) records "
        "with the same quasi-identifiers, 0 where there is none",
        meaning="average chance of re-identifying a record against a register of the population",
        needs=("rows",),
    ),
    _risk(
        code="singling-out",
        title="Singling out",
        definition="share of predicates built from the release, each true for one released record, "
        "that are true for exactly one original",
        meaning="an attacker isolates one real person this often; the baseline is the same on "
        "people who took no part",
        needs=("control",),
    ),
    _risk(
        code="linkability",
        title="Linkability",
        definition="share of persons whose two halves of attributes, held by two databases, both "
        "have the same released record among their 5 nearest",
        meaning="the release helps to join two databases about a person",
        needs=("control",),
    ),
    _risk(
        code="inference",
        title="Inference of a secret",
        definition="share of persons whose value of an attribute is guessed (labels exactly, "
        "numbers within 5 % of the range) from the released record nearest in all others, "
        "averaged over attributes",
        meaning="what the release tells about a person in it, over one not in it",
        needs=("control",),
    ),
    _risk(
        code="membership",
        title="Membership inference",
        definition="advantage (true minus false positive rate) of a threshold on the distance to "
        "the nearest released record, chosen on one half of the persons and tested on the other",
        range="−1 to 1",
        meaning="0: nobody can tell who is in the release; 1: everybody can",
        needs=("control",),
    ),
    _risk(
        code="membership-match",
        title="Membership inference by matching",
        definition="the same by a threshold on the expected number of released records equal to "
        "the person, over all ways to put slices, buckets, fragments or classes together again",
        range="−1 to 1",
        meaning="0: nobody can tell who is in the release; 1: everybody can",
        needs=("control",),
    ),
    _released(
        code="homogeneity",
        title="People in groups with one secret",
        definition="share of released records in classes or buckets whose records all have one "
        "value of the sensitive attribute (the worst one); the baseline is the same values in "
        "random groups of the same sizes",
        meaning="somebody who knows a person's group knows this value for certain",
    ),
    _released(
        code="background",
        title="People known after ruling out one value",
        definition="the same for groups with at most two values: what is certain for somebody who "
        "can rule out one of them",
        meaning="what a little background knowledge adds; all of them where there are two values",
    ),
    _released(
        code="least-confidence",
        title="Confidence of the best guess in a group",
        definition="mean over released records of the share of the most frequent sensitive value "
        "in their group; the baseline is the same in random groups of the same sizes",
        meaning="somebody who knows a person's group guesses the secret right at least this often",
    ),
    _released(
        code="skewness",
        title="Skewness of groups",
        definition="mean over released records of the largest factor by which a sensitive value "
        "is more frequent in their group than in the release; the baseline is the same in random "
        "groups of the same sizes",
        range="1 to ∞",
        meaning="how much more likely a secret becomes for people in a group",
    ),
    _released(
        code="t-closeness",
        title="t-closeness",
        definition="the largest distance between a group's distribution of the sensitive attribute "
        "and the whole release's: earth mover's distance, with equal steps between the values of "
        "numbers and ordinals and equal distances between categories (Li et al. 2007)",
        meaning="0: no group tells more than the whole; 1: a group tells a rare value for certain",
    ),
    _released(
        code="entropy-diversity",
        title="Entropy l-diversity",
        definition="the largest l for which every class or bucket has entropy l-diversity: the "
        "smallest e to the entropy of a group's sensitive values (Machanavajjhala et al. 2007); "
        "the baseline is the same values in random groups of the same sizes",
        range="1 to the number of values",
        meaning="1: a group with one value; the number of values: all equally frequent everywhere",
        better=Better.HIGHER,
    ),
    _released(
        code="recursive-diversity",
        title="Recursive (3, l)-diversity",
        definition="the largest l for which every class or bucket has recursive (3, l)-diversity: "
        "its most frequent sensitive value is less than three times as frequent as all but the "
        "l − 1 most frequent together (Machanavajjhala et al. 2007); the baseline is the same "
        "values in random groups of the same sizes",
        range="1 to the number of values",
        meaning="the group stays diverse for somebody who rules out l − 2 values",
        better=Better.HIGHER,
    ),
    _released(
        code="largest-share",
        title="(α, k)-anonymity's α",
        definition="the largest share of one sensitive value in a class or bucket, which is the "
        "least α of (α, k)-anonymity (Wong et al. 2006); the baseline is the same values in "
        "random groups of the same sizes",
        meaning="the best guess about anybody is right with this probability",
    ),
    _released(
        code="beta-likeness",
        title="β-likeness",
        definition="the least β of basic β-likeness: the largest relative gain in the frequency of "
        "a sensitive value, from the whole release to a class or bucket (Cao and Karras 2012); "
        "the baseline is the same values in random groups of the same sizes",
        range="0 to ∞",
        meaning="0: no value is more frequent in a group than in the release; 1: one is twice as "
        "frequent",
    ),
    _risk(
        code="nearest-ratio",
        title="Nearest-neighbour distance ratio",
        definition="median of d1/d2, the distances of a person to the nearest and second nearest "
        "released record",
        meaning="well below the baseline (people not in the release): released records are copies "
        "of real ones",
        better=Better.HIGHER,
        needs=("control",),
    ),
    _risk(
        code="insider",
        title="What one owner learns of another",
        definition="share of the other owners' cells recovered to within 1 % of the range (labels: "
        "exactly) by an owner who knows its own part and the released rows of its people; the "
        "baseline is a model on the owner's own columns",
        meaning="what taking part in a joint release costs against the other participants",
        needs=("rows", "pairs"),
    ),
)
