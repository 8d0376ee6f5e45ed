/* FusedSystem, traced to C. Operations: derivative 0, initial 167, update 387, output 0.

   index  port           element  unit
       0  t                       s
   sampled states
       1  command.y      1        rad
       2  command.y      2        rad
       3  command.slope  1        rad/s
       4  command.slope  2        rad/s
       5  pd.tau         1        N.m
       6  pd.tau         2        N.m
       7  robot.q        1        rad
       8  robot.q        2        rad
       9  robot.qd       1        rad/s
      10  robot.qd       2        rad/s
      11  robot.qdd      1        rad/s2
      12  robot.qdd      2        rad/s2
      13  robot.energy            J
   tunable parameters
      14  command.table  1,1      rad
      15  command.table  1,2      rad
      16  command.table  2,1      rad
      17  command.table  2,2      rad
      18  command.table  3,1      rad
      19  command.table  3,2      rad
      20  command.table  4,1      rad
      21  command.table  4,2      rad
      22  command.table  5,1      rad
      23  command.table  5,2      rad
      24  pd.kp          1        N.m/rad
      25  pd.kp          2        N.m/rad
      26  pd.kd          1        N.m.s/rad
      27  pd.kd          2        N.m.s/rad
      28  robot.gravity  1        m/s2
      29  robot.gravity  2        m/s2
      30  robot.gravity  3        m/s2
*/

#ifndef RB_MODEL_H
#define RB_MODEL_H

#include <math.h>

enum { RB_T = 0, RB_X = 1, RB_NX = 0, RB_Z = 1, RB_NZ = 13, RB_U = 14, RB_NU = 0, RB_P = 14, RB_NP = 17, RB_Y = 31, RB_NY = 0, RB_S = 31, RB_NS = 0, RB_SIZE = 31 };
#define RB_LARGE 0
#define RB_PROJECTS 0
static const double RB_SAMPLE_TIME = 0.001;
static const double RB_INNER_STEP = 0.001;
static const double RB_START[] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.5, 1.0, 1.5, 0.0, 0.0, 0.0, 0.0, 1000.0, 1000.0, 15.0, 15.0, 0.0, 0.0, -9.81};
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
    const double v4 = fabs(in[0]); /* t */
    const double v5 = 3.552713678800501e-15 * v4;
    const double v7 = v5 + 4e-09;
    const double v8 = in[0] + v7;
    const double v9 = v8 / 4.0;
    const double v10 = floor(v9);
    const double v11 = 4.0 * v10;
    const double v12 = in[0] - v11;
    const double v13 = v12 + v7;
    const double v14 = (3.0 <= v13) ? 1.0 : 0.0;
    const double v17 = in[22] - in[20]; /* command.table[5,1], command.table[4,1] */
    const double v18 = v12 - 3.0;
    const double v19 = v17 * v18;
    const double v20 = in[20] + v19;
    const double v21 = (v14 != 0.0) ? v20 : 0.0;
    const double v22 = (v14 == 0.0) ? 1.0 : 0.0;
    const double v24 = (2.0 <= v13) ? 1.0 : 0.0;
    const double v26 = in[20] - in[18]; /* command.table[3,1] */
    const double v27 = v12 - 2.0;
    const double v28 = v26 * v27;
    const double v29 = in[18] + v28;
    const double v30 = (v24 != 0.0) ? v29 : 0.0;
    const double v31 = (v24 == 0.0) ? 1.0 : 0.0;
    const double v33 = (1.0 <= v13) ? 1.0 : 0.0;
    const double v35 = in[18] - in[16]; /* command.table[2,1] */
    const double v36 = v12 - 1.0;
    const double v37 = v35 * v36;
    const double v38 = in[16] + v37;
    const double v39 = (v33 != 0.0) ? v38 : 0.0;
    const double v40 = (v33 == 0.0) ? 1.0 : 0.0;
    const double v42 = in[16] - in[14]; /* command.table[1,1] */
    const double v43 = v42 * v12;
    const double v44 = in[14] + v43;
    const double v45 = (v40 != 0.0) ? v44 : 0.0;
    const double v46 = v39 + v45;
    const double v47 = (v31 != 0.0) ? v46 : 0.0;
    const double v48 = v30 + v47;
    const double v49 = (v22 != 0.0) ? v48 : 0.0;
    const double v50 = v21 + v49;
    out[0] = v50; /* command.y[1] */
    const double v54 = in[23] - in[21]; /* command.table[5,2], command.table[4,2] */
    const double v55 = v54 * v18;
    const double v56 = in[21] + v55;
    const double v57 = (v14 != 0.0) ? v56 : 0.0;
    const double v59 = in[21] - in[19]; /* command.table[3,2] */
    const double v60 = v59 * v27;
    const double v61 = in[19] + v60;
    const double v62 = (v24 != 0.0) ? v61 : 0.0;
    const double v64 = in[19] - in[17]; /* command.table[2,2] */
    const double v65 = v64 * v36;
    const double v66 = in[17] + v65;
    const double v67 = (v33 != 0.0) ? v66 : 0.0;
    const double v69 = in[17] - in[15]; /* command.table[1,2] */
    const double v70 = v69 * v12;
    const double v71 = in[15] + v70;
    const double v72 = (v40 != 0.0) ? v71 : 0.0;
    const double v73 = v67 + v72;
    const double v74 = (v31 != 0.0) ? v73 : 0.0;
    const double v75 = v62 + v74;
    const double v76 = (v22 != 0.0) ? v75 : 0.0;
    const double v77 = v57 + v76;
    out[1] = v77; /* command.y[2] */
    const double v79 = (v14 != 0.0) ? v17 : 0.0;
    const double v80 = (v24 != 0.0) ? v26 : 0.0;
    const double v81 = (v33 != 0.0) ? v35 : 0.0;
    const double v82 = (v40 != 0.0) ? v42 : 0.0;
    const double v83 = v81 + v82;
    const double v84 = (v31 != 0.0) ? v83 : 0.0;
    const double v85 = v80 + v84;
    const double v86 = (v22 != 0.0) ? v85 : 0.0;
    const double v87 = v79 + v86;
    out[2] = v87; /* command.slope[1] */
    const double v89 = (v14 != 0.0) ? v54 : 0.0;
    const double v90 = (v24 != 0.0) ? v59 : 0.0;
    const double v91 = (v33 != 0.0) ? v64 : 0.0;
    const double v92 = (v40 != 0.0) ? v69 : 0.0;
    const double v93 = v91 + v92;
    const double v94 = (v31 != 0.0) ? v93 : 0.0;
    const double v95 = v90 + v94;
    const double v96 = (v22 != 0.0) ? v95 : 0.0;
    const double v97 = v89 + v96;
    out[3] = v97; /* command.slope[2] */
    const double v101 = v50 - in[7]; /* robot.q[1] */
    const double v102 = in[24] * v101; /* pd.kp[1] */
    const double v105 = v87 - in[9]; /* robot.qd[1] */
    const double v106 = in[26] * v105; /* pd.kd[1] */
    const double v107 = v102 + v106;
    out[4] = v107; /* pd.tau[1] */
    const double v111 = v77 - in[8]; /* robot.q[2] */
    const double v112 = in[25] * v111; /* pd.kp[2] */
    const double v115 = v97 - in[10]; /* robot.qd[2] */
    const double v116 = in[27] * v115; /* pd.kd[2] */
    const double v117 = v112 + v116;
    out[5] = v117; /* pd.tau[2] */
    out[6] = in[7]; /* robot.q[1] */
    out[7] = in[8]; /* robot.q[2] */
    out[8] = in[9]; /* robot.qd[1] */
    out[9] = in[10]; /* robot.qd[2] */
    const double v123 = cos(in[8]);
    const double v125 = sin(in[8]);
    const double v126 = in[9] * in[9];
    const double v127 = v125 * v126;
    const double v128 = -0.75 * v127;
    const double v130 = 1.5 * v117;
    const double v131 = v128 + v130;
    const double v132 = v123 * v131;
    const double v134 = in[9] + in[10];
    const double v135 = v134 * v134;
    const double v136 = 0.5 * v135;
    const double v137 = v125 * v136;
    const double v138 = v132 - v137;
    const double v139 = v117 + v138;
    const double v140 = v107 - v139;
    const double v141 = v125 * v125;
    const double v142 = -0.75 * v141;
    const double v143 = -0.75 - v142;
    const double v145 = v143 + 1.3333333333333333;
    const double r0 = 1.0 / v145;
    const double v146 = v140 * r0;
    const double v147 = v123 * v125;
    const double v148 = -0.75 * v147;
    const double v149 = v148 * r0;
    const double v150 = cos(in[7]);
    const double v152 = v150 * in[28]; /* robot.gravity[1] */
    const double v153 = sin(in[7]);
    const double v155 = v153 * in[29]; /* robot.gravity[2] */
    const double v156 = v152 + v155;
    const double v157 = v149 * v156;
    const double v158 = v143 + 1.5;
    const double v159 = v158 * r0;
    const double v160 = v153 * in[28];
    const double v161 = v150 * in[29];
    const double v162 = v160 - v161;
    const double v163 = v159 * v162;
    const double v164 = v157 + v163;
    const double v165 = v146 - v164;
    out[10] = v165; /* robot.qdd[1] */
    const double v167 = 3.0 * v117;
    const double v168 = v125 * v156;
    const double v169 = v162 + v165;
    const double v170 = v123 * v169;
    const double v171 = v168 + v170;
    const double v172 = v171 + v127;
    const double v173 = 1.5 * v172;
    const double v174 = v165 + v173;
    const double v175 = v167 - v174;
    out[11] = v175; /* robot.qdd[2] */
    const double v178 = 0.3333333333333333 * in[9];
    const double v179 = in[9] * v178;
    const double r1 = 1.0 / 2.0;
    const double v180 = v179 * r1;
    const double v181 = 0.3333333333333333 * v134;
    const double v182 = v123 * in[9];
    const double v183 = 0.5 * v182;
    const double v184 = v181 + v183;
    const double v185 = v134 * v184;
    const double v186 = v125 * in[9];
    const double v187 = v186 * v186;
    const double v188 = v185 + v187;
    const double v189 = 0.5 * v134;
    const double v190 = v182 + v189;
    const double v191 = v182 * v190;
    const double v192 = v188 + v191;
    const double v193 = v192 * r1;
    const double v194 = v180 + v193;
    const double v195 = 0.5 * v150;
    const double v196 = in[28] * v195;
    const double v197 = 0.5 * v153;
    const double v198 = in[29] * v197;
    const double v199 = v196 + v198;
    const double v200 = v123 * v150;
    const double v201 = v125 * v153;
    const double v202 = v200 - v201;
    const double v203 = 0.5 * v202;
    const double v204 = v150 + v203;
    const double v205 = in[28] * v204;
    const double v206 = v123 * v153;
    const double v207 = v125 * v150;
    const double v208 = v206 + v207;
    const double v209 = 0.5 * v208;
    const double v210 = v153 + v209;
    const double v211 = in[29] * v210;
    const double v212 = v205 + v211;
    const double v213 = v199 + v212;
    const double v214 = v194 - v213;
    out[12] = v214; /* robot.energy */
}

static inline void update(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v4 = fabs(in[0]); /* t */
    const double v5 = 3.552713678800501e-15 * v4;
    const double v7 = v5 + 4e-09;
    const double v8 = in[0] + v7;
    const double v9 = v8 / 4.0;
    const double v10 = floor(v9);
    const double v11 = 4.0 * v10;
    const double v12 = in[0] - v11;
    const double v13 = v12 + v7;
    const double v14 = (3.0 <= v13) ? 1.0 : 0.0;
    const double v17 = in[22] - in[20]; /* command.table[5,1], command.table[4,1] */
    const double v18 = v12 - 3.0;
    const double v19 = v17 * v18;
    const double v20 = in[20] + v19;
    const double v21 = (v14 != 0.0) ? v20 : 0.0;
    const double v22 = (v14 == 0.0) ? 1.0 : 0.0;
    const double v24 = (2.0 <= v13) ? 1.0 : 0.0;
    const double v26 = in[20] - in[18]; /* command.table[3,1] */
    const double v27 = v12 - 2.0;
    const double v28 = v26 * v27;
    const double v29 = in[18] + v28;
    const double v30 = (v24 != 0.0) ? v29 : 0.0;
    const double v31 = (v24 == 0.0) ? 1.0 : 0.0;
    const double v33 = (1.0 <= v13) ? 1.0 : 0.0;
    const double v35 = in[18] - in[16]; /* command.table[2,1] */
    const double v36 = v12 - 1.0;
    const double v37 = v35 * v36;
    const double v38 = in[16] + v37;
    const double v39 = (v33 != 0.0) ? v38 : 0.0;
    const double v40 = (v33 == 0.0) ? 1.0 : 0.0;
    const double v42 = in[16] - in[14]; /* command.table[1,1] */
    const double v43 = v42 * v12;
    const double v44 = in[14] + v43;
    const double v45 = (v40 != 0.0) ? v44 : 0.0;
    const double v46 = v39 + v45;
    const double v47 = (v31 != 0.0) ? v46 : 0.0;
    const double v48 = v30 + v47;
    const double v49 = (v22 != 0.0) ? v48 : 0.0;
    const double v50 = v21 + v49;
    out[0] = v50; /* command.y[1] */
    const double v54 = in[23] - in[21]; /* command.table[5,2], command.table[4,2] */
    const double v55 = v54 * v18;
    const double v56 = in[21] + v55;
    const double v57 = (v14 != 0.0) ? v56 : 0.0;
    const double v59 = in[21] - in[19]; /* command.table[3,2] */
    const double v60 = v59 * v27;
    const double v61 = in[19] + v60;
    const double v62 = (v24 != 0.0) ? v61 : 0.0;
    const double v64 = in[19] - in[17]; /* command.table[2,2] */
    const double v65 = v64 * v36;
    const double v66 = in[17] + v65;
    const double v67 = (v33 != 0.0) ? v66 : 0.0;
    const double v69 = in[17] - in[15]; /* command.table[1,2] */
    const double v70 = v69 * v12;
    const double v71 = in[15] + v70;
    const double v72 = (v40 != 0.0) ? v71 : 0.0;
    const double v73 = v67 + v72;
    const double v74 = (v31 != 0.0) ? v73 : 0.0;
    const double v75 = v62 + v74;
    const double v76 = (v22 != 0.0) ? v75 : 0.0;
    const double v77 = v57 + v76;
    out[1] = v77; /* command.y[2] */
    const double v79 = (v14 != 0.0) ? v17 : 0.0;
    const double v80 = (v24 != 0.0) ? v26 : 0.0;
    const double v81 = (v33 != 0.0) ? v35 : 0.0;
    const double v82 = (v40 != 0.0) ? v42 : 0.0;
    const double v83 = v81 + v82;
    const double v84 = (v31 != 0.0) ? v83 : 0.0;
    const double v85 = v80 + v84;
    const double v86 = (v22 != 0.0) ? v85 : 0.0;
    const double v87 = v79 + v86;
    out[2] = v87; /* command.slope[1] */
    const double v89 = (v14 != 0.0) ? v54 : 0.0;
    const double v90 = (v24 != 0.0) ? v59 : 0.0;
    const double v91 = (v33 != 0.0) ? v64 : 0.0;
    const double v92 = (v40 != 0.0) ? v69 : 0.0;
    const double v93 = v91 + v92;
    const double v94 = (v31 != 0.0) ? v93 : 0.0;
    const double v95 = v90 + v94;
    const double v96 = (v22 != 0.0) ? v95 : 0.0;
    const double v97 = v89 + v96;
    out[3] = v97; /* command.slope[2] */
    const double v104 = 0.16666666666666666 * in[9]; /* robot.qd[1] */
    const double v110 = cos(in[8]); /* robot.q[2] */
    const double v112 = sin(in[8]);
    const double v113 = in[9] * in[9];
    const double v114 = v112 * v113;
    const double v115 = -0.75 * v114;
    const double v117 = 1.5 * in[6]; /* pd.tau[2] */
    const double v118 = v115 + v117;
    const double v119 = v110 * v118;
    const double v122 = in[9] + in[10]; /* robot.qd[2] */
    const double v123 = v122 * v122;
    const double v124 = 0.5 * v123;
    const double v125 = v112 * v124;
    const double v126 = v119 - v125;
    const double v127 = in[6] + v126;
    const double v128 = in[5] - v127; /* pd.tau[1] */
    const double v129 = v112 * v112;
    const double v130 = -0.75 * v129;
    const double v131 = -0.75 - v130;
    const double v133 = v131 + 1.3333333333333333;
    const double r0 = 1.0 / v133;
    const double v134 = v128 * r0;
    const double v135 = v110 * v112;
    const double v136 = -0.75 * v135;
    const double v137 = v136 * r0;
    const double v138 = cos(in[7]); /* robot.q[1] */
    const double v140 = v138 * in[28]; /* robot.gravity[1] */
    const double v141 = sin(in[7]);
    const double v143 = v141 * in[29]; /* robot.gravity[2] */
    const double v144 = v140 + v143;
    const double v145 = v137 * v144;
    const double v146 = v131 + 1.5;
    const double v147 = v146 * r0;
    const double v148 = v141 * in[28];
    const double v149 = v138 * in[29];
    const double v150 = v148 - v149;
    const double v151 = v147 * v150;
    const double v152 = v145 + v151;
    const double v153 = v134 - v152;
    const double v154 = 0.0005 * v153;
    const double v155 = in[9] + v154;
    const double v156 = 0.3333333333333333 * v155;
    const double v157 = v104 + v156;
    const double v158 = 0.0005 * in[10];
    const double v159 = in[8] + v158;
    const double v160 = cos(v159);
    const double v161 = sin(v159);
    const double v162 = v155 * v155;
    const double v163 = v161 * v162;
    const double v164 = -0.75 * v163;
    const double v165 = v164 + v117;
    const double v166 = v160 * v165;
    const double v167 = 3.0 * in[6];
    const double v168 = v112 * v144;
    const double v169 = v150 + v153;
    const double v170 = v110 * v169;
    const double v171 = v168 + v170;
    const double v172 = v171 + v114;
    const double v173 = 1.5 * v172;
    const double v174 = v153 + v173;
    const double v175 = v167 - v174;
    const double v176 = 0.0005 * v175;
    const double v177 = in[10] + v176;
    const double v178 = v155 + v177;
    const double v179 = v178 * v178;
    const double v180 = 0.5 * v179;
    const double v181 = v161 * v180;
    const double v182 = v166 - v181;
    const double v183 = in[6] + v182;
    const double v184 = in[5] - v183;
    const double v185 = v161 * v161;
    const double v186 = -0.75 * v185;
    const double v187 = -0.75 - v186;
    const double v188 = v187 + 1.3333333333333333;
    const double r1 = 1.0 / v188;
    const double v189 = v184 * r1;
    const double v190 = v160 * v161;
    const double v191 = -0.75 * v190;
    const double v192 = v191 * r1;
    const double v193 = 0.0005 * in[9];
    const double v194 = in[7] + v193;
    const double v195 = cos(v194);
    const double v196 = v195 * in[28];
    const double v197 = sin(v194);
    const double v198 = v197 * in[29];
    const double v199 = v196 + v198;
    const double v200 = v192 * v199;
    const double v201 = v187 + 1.5;
    const double v202 = v201 * r1;
    const double v203 = v197 * in[28];
    const double v204 = v195 * in[29];
    const double v205 = v203 - v204;
    const double v206 = v202 * v205;
    const double v207 = v200 + v206;
    const double v208 = v189 - v207;
    const double v209 = 0.0005 * v208;
    const double v210 = in[9] + v209;
    const double v211 = 0.3333333333333333 * v210;
    const double v212 = v157 + v211;
    const double v213 = 0.0005 * v177;
    const double v214 = in[8] + v213;
    const double v215 = cos(v214);
    const double v216 = sin(v214);
    const double v217 = v210 * v210;
    const double v218 = v216 * v217;
    const double v219 = -0.75 * v218;
    const double v220 = v219 + v117;
    const double v221 = v215 * v220;
    const double v222 = v161 * v199;
    const double v223 = v205 + v208;
    const double v224 = v160 * v223;
    const double v225 = v222 + v224;
    const double v226 = v225 + v163;
    const double v227 = 1.5 * v226;
    const double v228 = v208 + v227;
    const double v229 = v167 - v228;
    const double v230 = 0.0005 * v229;
    const double v231 = in[10] + v230;
    const double v232 = v210 + v231;
    const double v233 = v232 * v232;
    const double v234 = 0.5 * v233;
    const double v235 = v216 * v234;
    const double v236 = v221 - v235;
    const double v237 = in[6] + v236;
    const double v238 = in[5] - v237;
    const double v239 = v216 * v216;
    const double v240 = -0.75 * v239;
    const double v241 = -0.75 - v240;
    const double v242 = v241 + 1.3333333333333333;
    const double r2 = 1.0 / v242;
    const double v243 = v238 * r2;
    const double v244 = v215 * v216;
    const double v245 = -0.75 * v244;
    const double v246 = v245 * r2;
    const double v247 = 0.0005 * v155;
    const double v248 = in[7] + v247;
    const double v249 = cos(v248);
    const double v250 = v249 * in[28];
    const double v251 = sin(v248);
    const double v252 = v251 * in[29];
    const double v253 = v250 + v252;
    const double v254 = v246 * v253;
    const double v255 = v241 + 1.5;
    const double v256 = v255 * r2;
    const double v257 = v251 * in[28];
    const double v258 = v249 * in[29];
    const double v259 = v257 - v258;
    const double v260 = v256 * v259;
    const double v261 = v254 + v260;
    const double v262 = v243 - v261;
    const double v263 = 0.001 * v262;
    const double v264 = in[9] + v263;
    const double v265 = 0.16666666666666666 * v264;
    const double v266 = v212 + v265;
    const double v267 = 0.001 * v266;
    const double v268 = in[7] + v267;
    const double v269 = v50 - v268;
    const double v270 = in[24] * v269; /* pd.kp[1] */
    const double v272 = 0.16666666666666666 * v153;
    const double v273 = 0.3333333333333333 * v208;
    const double v274 = v272 + v273;
    const double v275 = 0.3333333333333333 * v262;
    const double v276 = v274 + v275;
    const double v277 = 0.001 * v231;
    const double v278 = in[8] + v277;
    const double v279 = cos(v278);
    const double v280 = sin(v278);
    const double v281 = v264 * v264;
    const double v282 = v280 * v281;
    const double v283 = -0.75 * v282;
    const double v284 = v283 + v117;
    const double v285 = v279 * v284;
    const double v286 = v216 * v253;
    const double v287 = v259 + v262;
    const double v288 = v215 * v287;
    const double v289 = v286 + v288;
    const double v290 = v289 + v218;
    const double v291 = 1.5 * v290;
    const double v292 = v262 + v291;
    const double v293 = v167 - v292;
    const double v294 = 0.001 * v293;
    const double v295 = in[10] + v294;
    const double v296 = v264 + v295;
    const double v297 = v296 * v296;
    const double v298 = 0.5 * v297;
    const double v299 = v280 * v298;
    const double v300 = v285 - v299;
    const double v301 = in[6] + v300;
    const double v302 = in[5] - v301;
    const double v303 = v280 * v280;
    const double v304 = -0.75 * v303;
    const double v305 = -0.75 - v304;
    const double v306 = v305 + 1.3333333333333333;
    const double r3 = 1.0 / v306;
    const double v307 = v302 * r3;
    const double v308 = v279 * v280;
    const double v309 = -0.75 * v308;
    const double v310 = v309 * r3;
    const double v311 = 0.001 * v210;
    const double v312 = in[7] + v311;
    const double v313 = cos(v312);
    const double v314 = v313 * in[28];
    const double v315 = sin(v312);
    const double v316 = v315 * in[29];
    const double v317 = v314 + v316;
    const double v318 = v310 * v317;
    const double v319 = v305 + 1.5;
    const double v320 = v319 * r3;
    const double v321 = v315 * in[28];
    const double v322 = v313 * in[29];
    const double v323 = v321 - v322;
    const double v324 = v320 * v323;
    const double v325 = v318 + v324;
    const double v326 = v307 - v325;
    const double v327 = 0.16666666666666666 * v326;
    const double v328 = v276 + v327;
    const double v329 = 0.001 * v328;
    const double v330 = in[9] + v329;
    const double v331 = v87 - v330;
    const double v332 = in[26] * v331; /* pd.kd[1] */
    const double v333 = v270 + v332;
    out[4] = v333; /* pd.tau[1] */
    const double v336 = 0.16666666666666666 * in[10];
    const double v337 = 0.3333333333333333 * v177;
    const double v338 = v336 + v337;
    const double v339 = 0.3333333333333333 * v231;
    const double v340 = v338 + v339;
    const double v341 = 0.16666666666666666 * v295;
    const double v342 = v340 + v341;
    const double v343 = 0.001 * v342;
    const double v344 = in[8] + v343;
    const double v345 = v77 - v344;
    const double v346 = in[25] * v345; /* pd.kp[2] */
    const double v348 = 0.16666666666666666 * v175;
    const double v349 = 0.3333333333333333 * v229;
    const double v350 = v348 + v349;
    const double v351 = 0.3333333333333333 * v293;
    const double v352 = v350 + v351;
    const double v353 = v280 * v317;
    const double v354 = v323 + v326;
    const double v355 = v279 * v354;
    const double v356 = v353 + v355;
    const double v357 = v356 + v282;
    const double v358 = 1.5 * v357;
    const double v359 = v326 + v358;
    const double v360 = v167 - v359;
    const double v361 = 0.16666666666666666 * v360;
    const double v362 = v352 + v361;
    const double v363 = 0.001 * v362;
    const double v364 = in[10] + v363;
    const double v365 = v97 - v364;
    const double v366 = in[27] * v365; /* pd.kd[2] */
    const double v367 = v346 + v366;
    out[5] = v367; /* pd.tau[2] */
    out[6] = v268; /* robot.q[1] */
    out[7] = v344; /* robot.q[2] */
    out[8] = v330; /* robot.qd[1] */
    out[9] = v364; /* robot.qd[2] */
    const double v373 = cos(v344);
    const double v374 = sin(v344);
    const double v375 = v330 * v330;
    const double v376 = v374 * v375;
    const double v377 = -0.75 * v376;
    const double v378 = v377 + v117;
    const double v379 = v373 * v378;
    const double v380 = v330 + v364;
    const double v381 = v380 * v380;
    const double v382 = 0.5 * v381;
    const double v383 = v374 * v382;
    const double v384 = v379 - v383;
    const double v385 = in[6] + v384;
    const double v386 = in[5] - v385;
    const double v387 = v374 * v374;
    const double v388 = -0.75 * v387;
    const double v389 = -0.75 - v388;
    const double v390 = v389 + 1.3333333333333333;
    const double r4 = 1.0 / v390;
    const double v391 = v386 * r4;
    const double v392 = v373 * v374;
    const double v393 = -0.75 * v392;
    const double v394 = v393 * r4;
    const double v395 = cos(v268);
    const double v396 = v395 * in[28];
    const double v397 = sin(v268);
    const double v398 = v397 * in[29];
    const double v399 = v396 + v398;
    const double v400 = v394 * v399;
    const double v401 = v389 + 1.5;
    const double v402 = v401 * r4;
    const double v403 = v397 * in[28];
    const double v404 = v395 * in[29];
    const double v405 = v403 - v404;
    const double v406 = v402 * v405;
    const double v407 = v400 + v406;
    const double v408 = v391 - v407;
    out[10] = v408; /* robot.qdd[1] */
    const double v410 = v374 * v399;
    const double v411 = v405 + v408;
    const double v412 = v373 * v411;
    const double v413 = v410 + v412;
    const double v414 = v413 + v376;
    const double v415 = 1.5 * v414;
    const double v416 = v408 + v415;
    const double v417 = v167 - v416;
    out[11] = v417; /* robot.qdd[2] */
    const double v419 = 0.3333333333333333 * v330;
    const double v420 = v330 * v419;
    const double r5 = 1.0 / 2.0;
    const double v421 = v420 * r5;
    const double v422 = 0.3333333333333333 * v380;
    const double v423 = v373 * v330;
    const double v424 = 0.5 * v423;
    const double v425 = v422 + v424;
    const double v426 = v380 * v425;
    const double v427 = v374 * v330;
    const double v428 = v427 * v427;
    const double v429 = v426 + v428;
    const double v430 = 0.5 * v380;
    const double v431 = v423 + v430;
    const double v432 = v423 * v431;
    const double v433 = v429 + v432;
    const double v434 = v433 * r5;
    const double v435 = v421 + v434;
    const double v436 = 0.5 * v395;
    const double v437 = in[28] * v436;
    const double v438 = 0.5 * v397;
    const double v439 = in[29] * v438;
    const double v440 = v437 + v439;
    const double v441 = v373 * v395;
    const double v442 = v374 * v397;
    const double v443 = v441 - v442;
    const double v444 = 0.5 * v443;
    const double v445 = v395 + v444;
    const double v446 = in[28] * v445;
    const double v447 = v373 * v397;
    const double v448 = v374 * v395;
    const double v449 = v447 + v448;
    const double v450 = 0.5 * v449;
    const double v451 = v397 + v450;
    const double v452 = in[29] * v451;
    const double v453 = v446 + v452;
    const double v454 = v440 + v453;
    const double v455 = v435 - v454;
    out[12] = v455; /* robot.energy */
}

static inline void output(const double *in, double *out)
{
    (void)in;
    (void)out;
}

#endif
