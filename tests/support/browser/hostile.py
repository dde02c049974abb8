"""Hostile text, for the page and for reports."""

from __future__ import annotations

HOSTILE_HTML = (
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<svg onload='window.hacked = 1'><a xlink:href='javascript:window.hacked=1'>x</a></svg>",
    "<iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>",
    "<style>* { display: none }</style><link rel=stylesheet href=//example.com/a.css>",
    "<form action=//example.com><button formaction=//example.com>x</button></form>",
    "<a href='java\tscript:window.hacked=1' onclick='window.hacked=1'>x</a>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.hacked=1>",
    "</script><script>window.hacked = 1</script>",
)
HOSTILE_MARKDOWN = (
    "[click](javascript:window.hacked=1)",
    "[click](JaVaScRiPt&colon;window.hacked=1)",
    "[click](data:text/html;base64,PHNjcmlwdD53aW5kb3cuaGFja2VkPTE8L3NjcmlwdD4=)",
    "[click](vbscript:x) <javascript:window.hacked=1>",
    "![pixel](http://example.com/pixel.png) ![pixel](data:image/svg+xml,<svg/onload=hacked=1>)",
    "[a]: javascript:window.hacked=1\n\n[a] [b][a]",
    "| a |\n|---|\n| <img src=x onerror=window.hacked=1> |",
    "`<img src=x onerror=window.hacked=1>`\n\n```html\n<script>window.hacked=1</script>\n```",
    "[other](//example.com/path) [file](/content/x) [source](#source-1) [frame](#top)",
    "right \u202eto left\u202c [a\u202eb](https://example.com/\u202e)",
    "a<br onload=window.hacked=1>b <br/x> <sub onclick=window.hacked=1>c</sub> <sup\n>d</sup>",
    "<sub><img src=x onerror=window.hacked=1></sub> <sup><b style='color:red'>x</b></sup>",
    "```html\n<img src=x onerror=window.hacked=1>\n<script>window.hacked=1</script>\n```",
    '```"><img/src/onerror=window.hacked=1>\nx\n```\n\n```__proto__\nx\n```\n\n```../../x\nx\n```',
)
HOSTILE_FORMULAS = (
    r"\href{javascript:window.hacked=1}{x} \url{https://example.com}",
    r"\includegraphics[height=1em]{https://example.com/pixel.png}",
    r"\class{citation}{x} \id{question}{x} \style{position:fixed}{x} \data{a=b}{x}",
    r"\htmlClass{citation}{x} \htmlId{question}{x} \htmlStyle{position:fixed}{x}",
    r"\begin{align}x \label{question}\end{align} \ref{question}",
    r"\def\a{\a\a}\a \newcommand{\b}{\b}\b",
    r"\def\a#1{#1#1#1#1#1#1#1#1}\a{\a{\a{\a{\a{\a{\a{\a{\a{x}}}}}}}}}",
    r"\gdef\x{hacked}\global\let\y=\x",
    r"\rule{9999em}{9999em} \kern9999pt \hspace{-9999em} \raisebox{-9999em}{x}",
    r"\text{<img src=x onerror=window.hacked=1>} \unicode{x3c}",
    r"\color{white}{\colorbox{red}{x}} \textcolor{#fff}{x}",
    r"\sideset{_a^b}{_c^d}\sum \pmb{x}",
    "{" * 900 + "}" * 900,
    "\\frac{" * 200 + "x",
    "\\sqrt{" * 24 + "x" + "}" * 24,
    "\\left(" * 24 + "x" + "\\right)" * 24,
    "x^{" * 24 + "x" + "}" * 24,
    "\\begin{matrix}" + "&" * 1900 + "\\end{matrix}",
    "x_" * 900 + "x",
)
