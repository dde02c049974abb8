"""Stop words of English, German, French, Spanish and Arabic."""

from __future__ import annotations

from collections.abc import Sequence

ENGLISH = frozenset(
    """
    a about above after all also am an and another any anybody anyone anything are as at be
    because been before being below between both but by ca can could did do does doing during
    each either else even ever every few for from further get gets getting had has have having
    he her here hers him his how i if in into is it its just let ll m many may me might mine
    more most much must my myself near neither nor of off on once one ones only onto or other
    our ours out over own per please re s same shall she should since so some somebody someone
    something still such than that the their theirs them then there these they this those
    through to too under until up upon us ve very was we were what when where whether which
    while who whom whose why will with within without wo would you your yours
    """.split()
)
"""Without "not", which changes the meaning."""

GERMAN = frozenset(
    """
    aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis
    bist da dabei dafür damit dann das dass dazu dem den denn der des dessen die dies diese diesem
    diesen dieser dieses doch dort du durch ein eine einem einen einer eines er es etwas für gegen
    gibt hab habe haben hat hatte hier hoch ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins
    ist ja jede jedem jeden jeder jedes kann kannst können man mein meine meinem meinen meiner mich
    mir mit muss müssen nach noch nun nur ob oder ohne sein seine seinem seinen seiner sich sie sind
    so soll sollen sollte sonst um und uns unser unsere unter viel viele vom von vor wann war warum
    was weil welche welchem welchen welcher welches wem wen wenn wer werde werden weshalb wie wieso
    will wir wird wo wurde wurden während zu zum zur zwischen über
    """.replace("ß", "ss").split()
)

_FRENCH = frozenset(
    """
    a ai ainsi as au aucun aux avec avoir c ce cela ces cet cette ceux chaque chez ci combien comme
    comment d dans de depuis des donc dont du elle elles en entre est et eu faire fait faut il ils
    j je l la laquelle le lequel les leur leurs lors lui m ma mais me mes moi mon même n ne ni nos
    notre nous on ont ou où par pas pendant peut peux plus pour pourquoi puis qu quand que quel
    quelle quelles quels qui quoi s sa sans se selon sera ses si soit son sont sous suis sur t ta te
    tes toi ton tous tout toute toutes tu un une vers vos votre vous y à été être
    """.split()
)

_SPANISH = frozenset(
    """
    a al algo como con cual cuales cuando cuanta cuanto cuál cuáles cuándo cuánta cuánto cómo de
    del desde donde durante dónde e el ella ellas ellos en entre era es esa ese eso esta estas este
    esto estos está están fue ha han hasta hay la las le les lo los me mi mis muy más ni no nos o
    para pero por porque puede puedo que quien quién qué se sea ser si sin sobre son su sus sí
    también te tiene tengo todo todos tu tus un una unas uno unos y ya yo él
    """.split()
)

# As `terms.extract_terms` normalizes them: alef without hamza, words without the article.
_ARABIC = frozenset(
    """
    الي ان او اي اين اذا التي الذي ذين اللي انا انت ايضا بعد بل بين تكون تلك ثم حتي حيث ذلك عل علي
    عن عند عندما غير فان في قبل قد كان كانت كل كم كما كيف لا لكن لم لما لماذا لن له لها لي ليس ما
    ماذا متي مع من منذ نحن هذا هذه هل هم هنا هناك هو هي و وقد يكون يمكن
    """.split()
)

_OTHERS = (GERMAN, _FRENCH, _SPANISH, _ARABIC)


def select_stopwords(terms: Sequence[str]) -> frozenset[str]:
    """Return the English stop words, and those of another language that has more of the terms.

    Not those of all languages: "die" and "war" are German stop words and English content words.
    """
    question = set(terms)
    best = max(_OTHERS, key=lambda words: len(question & words))
    return ENGLISH | best if len(question & best) > len(question & ENGLISH) else ENGLISH
