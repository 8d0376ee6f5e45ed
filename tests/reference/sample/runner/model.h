/* FusedSystem, traced to C. Operations: derivative 0, initial 9, update 225, output 0.

   index  port         element  unit
       0  t                     s
   sampled states
       1  table.d      1        1
       2  table.d      2        1
       3  table.w               rad/s
       4  table.tau             N.m
       5  table.P               W
   inputs
       6  table.w_ref           rad/s
   tunable parameters
       7  table.I               kg.m2
       8  table.b               N.m.s/rad
*/

#ifndef RB_MODEL_H
#define RB_MODEL_H

#include <math.h>

enum { RB_T = 0, RB_X = 1, RB_NX = 0, RB_Z = 1, RB_NZ = 5, RB_U = 6, RB_NU = 1, RB_P = 7, RB_NP = 2, RB_Y = 9, RB_NY = 0, RB_S = 9, RB_NS = 0, RB_SIZE = 9 };
#define RB_LARGE 0
#define RB_PROJECTS 0
static const double RB_SAMPLE_TIME = 0.002;
static const double RB_INNER_STEP = 0.001;
static const double RB_START[] = {0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.1};
#define RB_ADAPTIVE 0
#define RB_EXPLICIT 1
#define RB_IMPLICIT 0
#define RB_LINEARLY_IMPLICIT 0
#define RB_COLLOCATION 0
#define RB_EXACT_SLOPES 0
enum { RB_STAGES = 4 };
static const double RB_A[5][4] = {{0.0, 0.0, 0.0, 0.0}, {0.5, 0.0, 0.0, 0.0}, {0.0, 0.5, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}, {0.16666666666666666, 0.3333333333333333, 0.3333333333333333, 0.16666666666666666}};
static const double RB_A_POSITION[5][4] = {{0.0, 0.0, 0.0, 0.0}, {0.5, 0.0, 0.0, 0.0}, {0.0, 0.5, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}, {0.16666666666666666, 0.3333333333333333, 0.3333333333333333, 0.16666666666666666}};
static const double RB_C[] = {0.0, 0.5, 0.5, 1.0};
static const unsigned char RB_POSITION[RB_NX + 1] = {0};
static inline void derivative(const double *in, double *out)
{
    (void)in;
    (void)out;
}

static inline void initial(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v1 = in[1] * in[1]; /* table.d[1] */
    const double v3 = in[2] * in[2]; /* table.d[2] */
    const double v4 = v1 + v3;
    const double v5 = sqrt(v4);
    const double r0 = 1.0 / v5;
    const double v6 = in[1] * r0;
    out[0] = v6; /* table.d[1] */
    const double v8 = in[2] * r0;
    out[1] = v8; /* table.d[2] */
    out[2] = in[3]; /* table.w */
    const double v13 = in[6] - in[3]; /* table.w_ref */
    const double v14 = v13 + v13;
    out[3] = v14; /* table.tau */
    const double v16 = v14 * in[3];
    out[4] = v16; /* table.P */
}

static inline void update(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v5 = in[3] * in[2]; /* table.w, table.d[2] */
    const double v6 = 0.16666666666666666 * v5;
    const double v12 = in[8] * in[3]; /* table.b */
    const double v14 = (v12 < -1.0) ? 1.0 : 0.0;
    const double v15 = (v14 != 0.0) ? -1.0 : 0.0;
    const double v16 = (v14 == 0.0) ? 1.0 : 0.0;
    const double v17 = (v16 != 0.0) ? v12 : 0.0;
    const double v18 = v15 + v17;
    const double v19 = (1.0 < v18) ? 1.0 : 0.0;
    const double v20 = (v19 != 0.0) ? 1.0 : 0.0;
    const double v21 = (v19 == 0.0) ? 1.0 : 0.0;
    const double v22 = (v21 != 0.0) ? v18 : 0.0;
    const double v23 = v20 + v22;
    const double v24 = in[4] - v23; /* table.tau */
    const double r0 = 1.0 / in[7]; /* table.I */
    const double v26 = v24 * r0;
    const double v27 = 0.0005 * v26;
    const double v28 = in[3] + v27;
    const double v29 = in[3] * in[1]; /* table.d[1] */
    const double v30 = 0.0005 * v29;
    const double v31 = in[2] + v30;
    const double v32 = v28 * v31;
    const double v33 = 0.3333333333333333 * v32;
    const double v34 = v6 + v33;
    const double v35 = in[8] * v28;
    const double v36 = (v35 < -1.0) ? 1.0 : 0.0;
    const double v37 = (v36 != 0.0) ? -1.0 : 0.0;
    const double v38 = (v36 == 0.0) ? 1.0 : 0.0;
    const double v39 = (v38 != 0.0) ? v35 : 0.0;
    const double v40 = v37 + v39;
    const double v41 = (1.0 < v40) ? 1.0 : 0.0;
    const double v42 = (v41 != 0.0) ? 1.0 : 0.0;
    const double v43 = (v41 == 0.0) ? 1.0 : 0.0;
    const double v44 = (v43 != 0.0) ? v40 : 0.0;
    const double v45 = v42 + v44;
    const double v46 = in[4] - v45;
    const double v47 = v46 * r0;
    const double v48 = 0.0005 * v47;
    const double v49 = in[3] + v48;
    const double v50 = 0.0005 * v5;
    const double v51 = in[1] - v50;
    const double v52 = v28 * v51;
    const double v53 = 0.0005 * v52;
    const double v54 = in[2] + v53;
    const double v55 = v49 * v54;
    const double v56 = 0.3333333333333333 * v55;
    const double v57 = v34 + v56;
    const double v58 = in[8] * v49;
    const double v59 = (v58 < -1.0) ? 1.0 : 0.0;
    const double v60 = (v59 != 0.0) ? -1.0 : 0.0;
    const double v61 = (v59 == 0.0) ? 1.0 : 0.0;
    const double v62 = (v61 != 0.0) ? v58 : 0.0;
    const double v63 = v60 + v62;
    const double v64 = (1.0 < v63) ? 1.0 : 0.0;
    const double v65 = (v64 != 0.0) ? 1.0 : 0.0;
    const double v66 = (v64 == 0.0) ? 1.0 : 0.0;
    const double v67 = (v66 != 0.0) ? v63 : 0.0;
    const double v68 = v65 + v67;
    const double v69 = in[4] - v68;
    const double v70 = v69 * r0;
    const double v71 = 0.001 * v70;
    const double v72 = in[3] + v71;
    const double v73 = 0.0005 * v32;
    const double v74 = in[1] - v73;
    const double v75 = v49 * v74;
    const double v76 = 0.001 * v75;
    const double v77 = in[2] + v76;
    const double v78 = v72 * v77;
    const double v79 = 0.16666666666666666 * v78;
    const double v80 = v57 + v79;
    const double v81 = 0.001 * v80;
    const double v82 = in[1] - v81;
    const double v83 = v82 * v82;
    const double v84 = 0.16666666666666666 * v29;
    const double v85 = 0.3333333333333333 * v52;
    const double v86 = v84 + v85;
    const double v87 = 0.3333333333333333 * v75;
    const double v88 = v86 + v87;
    const double v89 = 0.001 * v55;
    const double v90 = in[1] - v89;
    const double v91 = v72 * v90;
    const double v92 = 0.16666666666666666 * v91;
    const double v93 = v88 + v92;
    const double v94 = 0.001 * v93;
    const double v95 = in[2] + v94;
    const double v96 = v95 * v95;
    const double v97 = v83 + v96;
    const double v98 = sqrt(v97);
    const double r1 = 1.0 / v98;
    const double v99 = v82 * r1;
    const double v100 = 0.16666666666666666 * v26;
    const double v101 = 0.3333333333333333 * v47;
    const double v102 = v100 + v101;
    const double v103 = 0.3333333333333333 * v70;
    const double v104 = v102 + v103;
    const double v105 = in[8] * v72;
    const double v106 = (v105 < -1.0) ? 1.0 : 0.0;
    const double v107 = (v106 != 0.0) ? -1.0 : 0.0;
    const double v108 = (v106 == 0.0) ? 1.0 : 0.0;
    const double v109 = (v108 != 0.0) ? v105 : 0.0;
    const double v110 = v107 + v109;
    const double v111 = (1.0 < v110) ? 1.0 : 0.0;
    const double v112 = (v111 != 0.0) ? 1.0 : 0.0;
    const double v113 = (v111 == 0.0) ? 1.0 : 0.0;
    const double v114 = (v113 != 0.0) ? v110 : 0.0;
    const double v115 = v112 + v114;
    const double v116 = in[4] - v115;
    const double v117 = v116 * r0;
    const double v118 = 0.16666666666666666 * v117;
    const double v119 = v104 + v118;
    const double v120 = 0.001 * v119;
    const double v121 = in[3] + v120;
    const double v122 = v95 * r1;
    const double v123 = v121 * v122;
    const double v124 = 0.16666666666666666 * v123;
    const double v125 = in[8] * v121;
    const double v126 = (v125 < -1.0) ? 1.0 : 0.0;
    const double v127 = (v126 != 0.0) ? -1.0 : 0.0;
    const double v128 = (v126 == 0.0) ? 1.0 : 0.0;
    const double v129 = (v128 != 0.0) ? v125 : 0.0;
    const double v130 = v127 + v129;
    const double v131 = (1.0 < v130) ? 1.0 : 0.0;
    const double v132 = (v131 != 0.0) ? 1.0 : 0.0;
    const double v133 = (v131 == 0.0) ? 1.0 : 0.0;
    const double v134 = (v133 != 0.0) ? v130 : 0.0;
    const double v135 = v132 + v134;
    const double v136 = in[4] - v135;
    const double v137 = v136 * r0;
    const double v138 = 0.0005 * v137;
    const double v139 = v121 + v138;
    const double v140 = v121 * v99;
    const double v141 = 0.0005 * v140;
    const double v142 = v122 + v141;
    const double v143 = v139 * v142;
    const double v144 = 0.3333333333333333 * v143;
    const double v145 = v124 + v144;
    const double v146 = in[8] * v139;
    const double v147 = (v146 < -1.0) ? 1.0 : 0.0;
    const double v148 = (v147 != 0.0) ? -1.0 : 0.0;
    const double v149 = (v147 == 0.0) ? 1.0 : 0.0;
    const double v150 = (v149 != 0.0) ? v146 : 0.0;
    const double v151 = v148 + v150;
    const double v152 = (1.0 < v151) ? 1.0 : 0.0;
    const double v153 = (v152 != 0.0) ? 1.0 : 0.0;
    const double v154 = (v152 == 0.0) ? 1.0 : 0.0;
    const double v155 = (v154 != 0.0) ? v151 : 0.0;
    const double v156 = v153 + v155;
    const double v157 = in[4] - v156;
    const double v158 = v157 * r0;
    const double v159 = 0.0005 * v158;
    const double v160 = v121 + v159;
    const double v161 = 0.0005 * v123;
    const double v162 = v99 - v161;
    const double v163 = v139 * v162;
    const double v164 = 0.0005 * v163;
    const double v165 = v122 + v164;
    const double v166 = v160 * v165;
    const double v167 = 0.3333333333333333 * v166;
    const double v168 = v145 + v167;
    const double v169 = in[8] * v160;
    const double v170 = (v169 < -1.0) ? 1.0 : 0.0;
    const double v171 = (v170 != 0.0) ? -1.0 : 0.0;
    const double v172 = (v170 == 0.0) ? 1.0 : 0.0;
    const double v173 = (v172 != 0.0) ? v169 : 0.0;
    const double v174 = v171 + v173;
    const double v175 = (1.0 < v174) ? 1.0 : 0.0;
    const double v176 = (v175 != 0.0) ? 1.0 : 0.0;
    const double v177 = (v175 == 0.0) ? 1.0 : 0.0;
    const double v178 = (v177 != 0.0) ? v174 : 0.0;
    const double v179 = v176 + v178;
    const double v180 = in[4] - v179;
    const double v181 = v180 * r0;
    const double v182 = 0.001 * v181;
    const double v183 = v121 + v182;
    const double v184 = 0.0005 * v143;
    const double v185 = v99 - v184;
    const double v186 = v160 * v185;
    const double v187 = 0.001 * v186;
    const double v188 = v122 + v187;
    const double v189 = v183 * v188;
    const double v190 = 0.16666666666666666 * v189;
    const double v191 = v168 + v190;
    const double v192 = 0.001 * v191;
    const double v193 = v99 - v192;
    const double v194 = v193 * v193;
    const double v195 = 0.16666666666666666 * v140;
    const double v196 = 0.3333333333333333 * v163;
    const double v197 = v195 + v196;
    const double v198 = 0.3333333333333333 * v186;
    const double v199 = v197 + v198;
    const double v200 = 0.001 * v166;
    const double v201 = v99 - v200;
    const double v202 = v183 * v201;
    const double v203 = 0.16666666666666666 * v202;
    const double v204 = v199 + v203;
    const double v205 = 0.001 * v204;
    const double v206 = v122 + v205;
    const double v207 = v206 * v206;
    const double v208 = v194 + v207;
    const double v209 = sqrt(v208);
    const double r2 = 1.0 / v209;
    const double v210 = v193 * r2;
    out[0] = v210; /* table.d[1] */
    const double v212 = v206 * r2;
    out[1] = v212; /* table.d[2] */
    const double v214 = 0.16666666666666666 * v137;
    const double v215 = 0.3333333333333333 * v158;
    const double v216 = v214 + v215;
    const double v217 = 0.3333333333333333 * v181;
    const double v218 = v216 + v217;
    const double v219 = in[8] * v183;
    const double v220 = (v219 < -1.0) ? 1.0 : 0.0;
    const double v221 = (v220 != 0.0) ? -1.0 : 0.0;
    const double v222 = (v220 == 0.0) ? 1.0 : 0.0;
    const double v223 = (v222 != 0.0) ? v219 : 0.0;
    const double v224 = v221 + v223;
    const double v225 = (1.0 < v224) ? 1.0 : 0.0;
    const double v226 = (v225 != 0.0) ? 1.0 : 0.0;
    const double v227 = (v225 == 0.0) ? 1.0 : 0.0;
    const double v228 = (v227 != 0.0) ? v224 : 0.0;
    const double v229 = v226 + v228;
    const double v230 = in[4] - v229;
    const double v231 = v230 * r0;
    const double v232 = 0.16666666666666666 * v231;
    const double v233 = v218 + v232;
    const double v234 = 0.001 * v233;
    const double v235 = v121 + v234;
    out[2] = v235; /* table.w */
    const double v238 = in[6] - v235; /* table.w_ref */
    const double v239 = v238 + v238;
    out[3] = v239; /* table.tau */
    const double v241 = v239 * v235;
    out[4] = v241; /* table.P */
}

static inline void output(const double *in, double *out)
{
    (void)in;
    (void)out;
}

#endif
