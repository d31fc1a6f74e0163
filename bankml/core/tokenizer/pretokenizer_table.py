# SPDX-License-Identifier: MIT OR Apache-2.0
"""The class of every code point, as the reference's library has it; written by testing/make_unicode_table.py."""

from typing import Final

RUNS: Final = """
o9 w5 o18 w1 p3 s1 p6 s1 p4 n10 p2 s3 p2 l26 p3 s1 p1 s1 l26 p1 s1 p1 s1 o6 w1 o26 w1 p1 s5 p1 s2 l1 p1 s1 o1 s4 n2 s1 l1 p2
s1 n1 l1 p1 n3 p1 l23 s1 l31 s1 l458 s4 l12 s14 l5 s7 l1 s1 l1 s17 m112 l5 s1 l2 o2 l4 p1 l1 o4 s2 l1 p1 l3 o1 l1 o1 l20 o1
l83 s1 l139 s1 m7 l166 o1 l38 o2 l1 p6 l41 p2 o2 s3 o1 m45 p1 m1 p1 m2 p1 m2 p1 m1 o8 l27 o4 l4 p2 o17 s3 p2 s1 p2 s2 m11 p1
o1 p3 l43 m21 n10 p4 l2 m1 l99 p1 l1 m7 o1 s1 m6 l2 m2 s1 m4 l2 n10 l3 s2 l1 p14 o2 l1 m1 l30 m27 o2 l89 m11 l1 o14 n10 l33
m9 l2 s1 p3 l1 o2 m1 s2 l22 m4 l1 m9 l1 m3 l1 m5 o2 p15 o1 l25 m3 o2 p1 o1 l11 o5 l24 s1 l6 o9 m8 l42 m24 o1 m33 l54 m3 l1
m18 l1 m7 l10 m2 p2 n10 p1 l16 m3 o1 l8 o2 l2 o2 l22 o1 l7 o1 l1 o3 l4 o2 m1 l1 m7 o2 m2 o2 m3 l1 o8 m1 o4 l2 o1 l3 m2 o2 n10
l2 s2 n6 s2 l1 p1 m1 o2 m3 o1 l6 o4 l2 o2 l22 o1 l7 o1 l2 o1 l2 o1 l2 o2 m1 o1 m5 o4 m2 o2 m3 o3 m1 o7 l4 o1 l1 o7 n10 m2 l3
m1 p1 o10 m3 o1 l9 o1 l3 o1 l22 o1 l7 o1 l2 o1 l5 o2 m1 l1 m8 o1 m3 o1 m3 o2 l1 o15 l2 m2 o2 n10 p1 s1 o7 l1 m6 o1 m3 o1 l8
o2 l2 o2 l22 o1 l7 o1 l2 o1 l5 o2 m1 l1 m7 o2 m2 o2 m3 o7 m3 o4 l2 o1 l3 m2 o2 n10 s1 l1 n6 o10 m1 l1 o1 l6 o3 l3 o1 l4 o3 l2
o1 l1 o1 l2 o3 l2 o3 l3 o3 l12 o4 m5 o3 m3 o1 m4 o2 l1 o6 m1 o14 n13 s8 o5 m5 l8 o1 l3 o1 l23 o1 l16 o2 m1 l1 m7 o1 m3 o1 m4
o7 m2 o1 l3 o2 l1 o2 l2 m2 o2 n10 o7 p1 n7 s1 l1 m3 p1 l8 o1 l3 o1 l23 o1 l10 o1 l5 o2 m1 l1 m7 o1 m3 o1 m4 o7 m2 o6 l2 o1 l2
m2 o2 n10 o1 l2 m1 o12 m4 l9 o1 l3 o1 l41 m2 l1 m7 o1 m3 o1 m4 l1 s1 o4 l3 m1 n7 l3 m2 o2 n19 s1 l6 o1 m3 o1 l18 o3 l24 o1 l9
o1 l1 o2 l7 o3 m1 o4 m6 o1 m1 o1 m8 o6 n10 o2 m2 p1 o12 l48 m1 l2 m7 o4 s1 l7 m8 p1 n10 p2 o37 l2 o1 l1 o1 l5 o1 l24 o1 l1 o1
l10 m1 l2 m9 l1 o2 l5 o1 l1 o1 m7 o1 n10 o2 l4 o32 l1 s3 p15 s1 p1 s3 m2 s6 n20 s1 m1 s1 m1 s1 m1 p4 m2 l8 o1 l36 o4 m20 p1
m2 l5 m11 o1 m36 o1 s8 m1 s6 o1 s2 p5 s4 p2 o37 l43 m20 l1 n10 p6 l6 m4 l4 m3 l1 m3 l2 m7 l3 m4 l13 m12 l1 m1 n10 m4 s2 l38
o1 l1 o5 l1 o2 l43 p1 l333 o1 l4 o2 l7 o1 l1 o1 l4 o2 l41 o1 l4 o2 l33 o1 l4 o2 l7 o1 l1 o1 l4 o2 l15 o1 l57 o1 l4 o2 l67 o2
m3 p9 n20 o3 l16 s10 o6 l86 o2 l6 o2 p1 l620 s1 p1 l17 w1 l26 p2 o3 l75 p3 n3 l8 o7 l18 m4 o9 l19 m3 p2 o9 l18 m2 o12 l13 o1
l3 o1 m2 o12 l52 m32 p3 l1 p3 s1 l1 m1 o2 n10 o6 n10 o6 p11 m3 o1 m1 n10 o6 l89 o7 l5 m2 l34 m1 l1 o5 l70 o10 l31 o1 m12 o4
m12 o4 s1 o3 p2 n10 l30 o2 l5 o11 l44 o4 l26 o6 n11 o3 s34 l23 m5 o2 p2 l53 m10 o1 m29 o2 m1 n10 o6 n10 o6 p7 l1 p6 o2 m31
o49 m5 l47 m17 l8 o3 n10 p7 s10 m9 s9 p2 o1 m3 l30 m13 l2 n10 l44 m14 o8 p4 l36 m20 o3 p5 n10 o3 l3 n10 l36 p2 l9 o7 l43 o2
l3 p8 o8 m3 p1 m21 l4 m1 l6 m1 l2 m3 l1 o5 l192 m64 l278 o2 l6 o2 l38 o2 l6 o2 l8 o1 l1 o1 l1 o1 l1 o1 l31 o2 l53 o1 l7 s1 l1
s3 l3 o1 l7 s3 l4 o2 l6 o1 s3 l13 s3 o2 l3 o1 l7 s2 o1 w11 o5 p24 w2 o5 w1 p20 s1 p13 s1 p12 w1 o16 n1 l1 o2 n6 s3 p2 l1 n10
s3 p2 o1 l13 o3 s33 o15 m33 o15 s2 l1 s4 l1 s2 l10 s1 l1 s3 l5 s6 l1 s1 l1 s1 l1 s1 l4 s1 l11 s2 l4 s5 l5 s4 l1 s1 n51 l2 n5
s2 o4 s376 p4 s29 p2 s252 o25 s11 o21 n60 s78 n22 s616 p14 n30 s49 p2 s31 p10 s403 p22 s63 p4 s32 p2 s374 o2 s32 o1 s105 l229
s6 l4 m3 l2 o5 p4 n1 p2 l38 o1 l1 o5 l1 o2 l56 o7 l1 p1 o14 m1 l23 o9 l7 o1 l7 o1 l7 o1 l7 o1 l7 o1 l7 o1 l7 o1 l7 o1 m32 p47
l1 p32 s2 p12 o34 s26 o1 s89 o12 s214 o26 s16 w1 p3 s1 l2 n1 p10 s2 p12 s1 n9 m6 p1 l5 s2 n3 l2 p1 s2 o1 l86 o2 m2 s2 l3 p1
l90 p1 l4 o5 l43 o1 l94 o1 s2 n4 s10 l32 s36 o11 s1 l16 s31 o1 n10 s30 n8 s1 n15 s32 n10 s39 n15 s320 l6592 s64 l22157 o3 s55
o9 l46 p2 l269 p3 l16 n10 l2 o20 l47 m4 p1 m10 p1 l31 m2 l70 n10 m2 p6 o8 s23 l9 s2 l103 s2 l64 o5 l2 o1 l1 o1 l5 o24 l16 m1
l3 m1 l4 m1 l23 m5 s4 m1 o3 n6 s4 o6 l52 p4 o8 m2 l50 m18 o8 p2 n10 o6 m18 l6 p3 l1 p1 l2 m1 n10 l28 m8 p2 l23 m13 o11 p1 l29
o3 m4 l47 m14 p13 o1 l1 n10 o4 p2 l5 m1 l10 n10 l5 o1 l41 m14 o9 l3 m1 l8 m2 o2 n10 o2 p4 l23 s3 l1 m3 l50 m1 l1 m3 l2 m2 l5
m2 l1 m1 l1 o24 l3 p2 l11 m5 p2 l3 m2 o10 l6 o2 l6 o2 l6 o9 l7 o1 l7 o1 l43 s1 l14 s2 o4 l115 m8 p1 m2 o2 n10 o6 l11172 o12
l23 o4 l49 o8452 l366 o2 l106 o38 l7 o12 l5 o5 l1 m1 l10 s1 l13 o1 l5 o1 l1 o1 l2 o1 l2 o1 l108 s17 o16 l363 p2 s16 l64 o2
l54 o7 s1 o32 l12 s4 m16 p10 o6 m16 p35 o1 p14 s1 p1 s3 o1 p1 s1 p2 o4 l5 o1 l135 o4 p3 s1 p6 s1 p4 n10 p2 s3 p2 l26 p3 s1 p1
s1 l26 p1 s1 p1 s1 p7 l89 o3 l6 o2 l6 o2 l6 o2 l3 o3 s7 o1 s7 o13 s2 o2 l12 o1 l26 o1 l19 o1 l2 o1 l15 o2 l14 o34 l123 o5 p3
o4 n45 o3 s9 n57 s17 n2 s3 o1 s13 o3 s1 o47 s45 m1 o130 l29 o3 l49 o15 m1 n27 o4 l32 n4 o9 l20 n1 l8 n1 o5 l38 m5 o5 l30 o1
p1 l36 o4 l8 p1 n5 o42 l158 o2 n10 o6 l36 o4 l36 o4 l40 o8 l52 o11 p1 l11 o1 l15 o1 l7 o1 l2 o1 l11 o1 l15 o1 l7 o1 l2 o67
l311 o9 l22 o10 l8 o24 l6 o1 l42 o1 l9 o69 l6 o2 l1 o1 l44 o1 l2 o3 l1 o2 l23 o1 p1 n8 l23 s2 n7 l31 o8 n9 o48 l19 o1 l2 o5
n5 l22 n6 o3 p1 l26 o5 p1 o64 l56 o4 n2 l2 n16 o2 n46 l1 m3 o1 m2 o5 m4 l4 o1 l3 o1 l29 o2 m3 o4 m1 n9 o7 p9 o7 l29 n2 p1 l29
n3 o32 l8 s1 l28 m2 o4 n5 p7 o9 l54 o3 p7 l22 o2 n8 l19 o5 n8 l18 o7 p4 o12 n7 o80 l73 o55 l51 o13 l51 o7 n6 l36 m4 o8 n10
o294 n31 o1 l42 o1 m2 p1 o2 l2 o75 m3 l29 n10 l1 o8 l22 m11 n4 p5 o22 l18 m4 p4 o38 l21 n7 o20 l23 o9 m3 l53 m15 p7 o4 n30 m1
l2 m2 l1 o9 m4 l45 m11 p2 o1 p4 m1 o13 l25 o7 n10 o6 m3 l36 m14 o1 n10 p4 l1 m2 l1 o8 l35 m1 p2 l1 o9 m3 l48 m14 l4 p4 m4 p1
m2 n10 l1 p1 l1 p3 o1 n20 o11 l18 o1 l25 m12 p6 m1 l2 m1 o62 l7 o1 l1 o1 l4 o1 l15 o1 l10 p1 o6 l47 m12 o5 n10 o6 m4 o1 l8 o2
l2 o2 l22 o1 l7 o1 l2 o1 l5 o1 m2 l1 m7 o2 m2 o2 m3 o2 l1 o6 m1 o5 l5 m2 o2 m7 o3 m5 o139 l53 m18 l4 p5 n10 p2 o1 p1 m1 l3
o30 l48 m20 l2 p1 l1 o8 n10 o166 l47 m7 o2 m9 p23 l4 m2 o34 l48 m17 p3 l1 o11 n10 o6 p13 o19 l43 m13 l1 p1 o6 n10 o54 l27 o2
m15 o4 n12 p3 s1 l7 o185 l44 m15 p1 o100 l64 n19 o12 l8 o2 l1 o2 l8 o1 l2 o1 l24 m6 o1 m2 o2 m4 l1 m1 l1 m2 p3 o9 n10 o70 l8
o2 l39 m7 o2 m7 l1 p1 l1 m1 o27 l1 m10 l40 m7 l1 m4 p8 m1 o8 l1 m11 l46 m16 p3 l1 p5 o13 l73 o7 p10 o246 l9 o1 l37 m8 o1 m8
l1 p5 o10 n29 o3 p2 l30 o2 m22 o1 m14 o73 l7 o1 l2 o1 l38 m6 o3 m1 o1 m2 o1 m7 l1 m1 o8 n10 o6 l6 o1 l2 o1 l32 m5 o1 m2 o1 m5
l1 o7 n10 o310 l19 m4 p2 o7 m2 l1 m1 l13 o1 l34 m7 o3 m5 p13 n10 o86 l1 o15 n21 s29 o13 p1 l922 o102 n111 o1 p5 o11 l196
o2636 l97 p2 o13 l1072 o16 m1 l6 m15 o4010 l583 o8633 l569 o7 l31 o1 n10 o4 p2 l79 o1 n10 o6 l30 o2 m5 p1 o10 l48 m7 p5 s4 l4
p1 s1 o10 n10 o1 n7 o1 l21 o5 l19 o688 l64 n23 p4 o101 l75 o4 m1 l1 m55 o7 m4 l13 o64 l2 p1 l1 m1 o11 m2 o14 l6136 o8 l1238
o42 l9 o8935 l4 o1 l7 o1 l2 o1 l291 o15 l1 o29 l3 o2 l1 o14 l4 o8 l396 o2308 l107 o5 l13 o3 l9 o7 l10 o2 s1 m2 p1 o4704 m46
o2 m23 o9 s116 o60 s246 o10 s39 o2 s60 m5 s3 m6 o8 m8 s2 m7 s30 m4 s61 o21 s66 m3 s1 o122 n20 o12 n20 o12 s87 o9 n25 o135 l85
o1 l71 o1 l2 o2 l1 o2 l2 o2 l4 o1 l12 o1 l1 o1 l7 o1 l65 o1 l4 o2 l8 o1 l7 o1 l28 o1 l4 o1 l5 o1 l1 o3 l7 o1 l340 o2 l25 s1
l25 s1 l31 s1 l25 s1 l31 s1 l25 s1 l31 s1 l25 s1 l31 s1 l25 s1 l8 o2 n50 s512 m55 s4 m50 s8 m1 s14 m1 s2 p5 o15 m5 o1 m15
o1104 l31 o6 l6 o213 m7 o1 m17 o2 m7 o1 m2 o1 m5 o5 l62 o33 m1 o112 l45 o3 m7 l7 o2 n10 o4 l1 s1 o320 l30 m1 o17 l44 m4 n10
o5 s1 o464 l28 m4 n10 o742 l7 o1 l4 o1 l2 o1 l15 o1 l197 o2 n9 m7 o41 l68 m7 l1 o4 n10 o4 p2 o785 n59 s1 n3 s1 n4 o76 n45 s1
n15 o194 l4 o1 l27 o1 l2 o1 l1 o2 l1 o1 l10 o1 l4 o1 l1 o1 l1 o6 l1 o4 l1 o1 l1 o1 l1 o1 l3 o1 l2 o1 l1 o2 l1 o1 l1 o1 l1 o1
l1 o1 l1 o1 l2 o1 l1 o2 l4 o1 l7 o1 l4 o1 l4 o1 l1 o1 l10 o1 l17 o5 l3 o1 l5 o1 l17 o52 s2 o270 s44 o4 s100 o12 s15 o2 s15 o1
s15 o1 s37 o10 n13 s161 o56 s29 o13 s44 o4 s9 o7 s2 o14 s6 o154 s984 o4 s17 o3 s13 o3 s119 o4 s95 o6 s12 o4 s1 o15 s12 o4 s56
o8 s10 o6 s40 o8 s30 o2 s2 o78 s340 o12 s14 o2 s13 o3 s9 o7 s46 o1 s7 o8 s14 o4 s9 o7 s9 o7 s147 o1 s55 o37 n10 o1030 l42720
o32 l4154 o6 l222 o2 l5762 o14 l7473 o15 l622 o2466 l542 o1506 l4939 o5 l4192 o712016 m240 o196112
"""
"""Letter and length of each run from U+0000 up: l letter, n number, m mark, p punctuation, s symbol, w white space, o other."""
