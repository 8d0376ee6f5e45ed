/* FusedSystem, traced to C. Operations: derivative 0, initial 164, update 384, output 0.

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
    const double v4 = in[0] + 4e-09; /* t */
    const double v5 = v4 / 4.0;
    const double v6 = floor(v5);
    const double v7 = 4.0 * v6;
    const double v8 = in[0] - v7;
    const double v9 = v8 + 4e-09;
    const double v10 = (3.0 <= v9) ? 1.0 : 0.0;
    const double v13 = in[22] - in[20]; /* command.table[5,1], command.table[4,1] */
    const double v14 = v8 - 3.0;
    const double v15 = v13 * v14;
    const double v16 = in[20] + v15;
    const double v17 = (v10 != 0.0) ? v16 : 0.0;
    const double v18 = (v10 == 0.0) ? 1.0 : 0.0;
    const double v20 = (2.0 <= v9) ? 1.0 : 0.0;
    const double v22 = in[20] - in[18]; /* command.table[3,1] */
    const double v23 = v8 - 2.0;
    const double v24 = v22 * v23;
    const double v25 = in[18] + v24;
    const double v26 = (v20 != 0.0) ? v25 : 0.0;
    const double v27 = (v20 == 0.0) ? 1.0 : 0.0;
    const double v29 = (1.0 <= v9) ? 1.0 : 0.0;
    const double v31 = in[18] - in[16]; /* command.table[2,1] */
    const double v32 = v8 - 1.0;
    const double v33 = v31 * v32;
    const double v34 = in[16] + v33;
    const double v35 = (v29 != 0.0) ? v34 : 0.0;
    const double v36 = (v29 == 0.0) ? 1.0 : 0.0;
    const double v38 = in[16] - in[14]; /* command.table[1,1] */
    const double v39 = v38 * v8;
    const double v40 = in[14] + v39;
    const double v41 = (v36 != 0.0) ? v40 : 0.0;
    const double v42 = v35 + v41;
    const double v43 = (v27 != 0.0) ? v42 : 0.0;
    const double v44 = v26 + v43;
    const double v45 = (v18 != 0.0) ? v44 : 0.0;
    const double v46 = v17 + v45;
    out[0] = v46; /* command.y[1] */
    const double v50 = in[23] - in[21]; /* command.table[5,2], command.table[4,2] */
    const double v51 = v50 * v14;
    const double v52 = in[21] + v51;
    const double v53 = (v10 != 0.0) ? v52 : 0.0;
    const double v55 = in[21] - in[19]; /* command.table[3,2] */
    const double v56 = v55 * v23;
    const double v57 = in[19] + v56;
    const double v58 = (v20 != 0.0) ? v57 : 0.0;
    const double v60 = in[19] - in[17]; /* command.table[2,2] */
    const double v61 = v60 * v32;
    const double v62 = in[17] + v61;
    const double v63 = (v29 != 0.0) ? v62 : 0.0;
    const double v65 = in[17] - in[15]; /* command.table[1,2] */
    const double v66 = v65 * v8;
    const double v67 = in[15] + v66;
    const double v68 = (v36 != 0.0) ? v67 : 0.0;
    const double v69 = v63 + v68;
    const double v70 = (v27 != 0.0) ? v69 : 0.0;
    const double v71 = v58 + v70;
    const double v72 = (v18 != 0.0) ? v71 : 0.0;
    const double v73 = v53 + v72;
    out[1] = v73; /* command.y[2] */
    const double v75 = (v10 != 0.0) ? v13 : 0.0;
    const double v76 = (v20 != 0.0) ? v22 : 0.0;
    const double v77 = (v29 != 0.0) ? v31 : 0.0;
    const double v78 = (v36 != 0.0) ? v38 : 0.0;
    const double v79 = v77 + v78;
    const double v80 = (v27 != 0.0) ? v79 : 0.0;
    const double v81 = v76 + v80;
    const double v82 = (v18 != 0.0) ? v81 : 0.0;
    const double v83 = v75 + v82;
    out[2] = v83; /* command.slope[1] */
    const double v85 = (v10 != 0.0) ? v50 : 0.0;
    const double v86 = (v20 != 0.0) ? v55 : 0.0;
    const double v87 = (v29 != 0.0) ? v60 : 0.0;
    const double v88 = (v36 != 0.0) ? v65 : 0.0;
    const double v89 = v87 + v88;
    const double v90 = (v27 != 0.0) ? v89 : 0.0;
    const double v91 = v86 + v90;
    const double v92 = (v18 != 0.0) ? v91 : 0.0;
    const double v93 = v85 + v92;
    out[3] = v93; /* command.slope[2] */
    const double v97 = v46 - in[7]; /* robot.q[1] */
    const double v98 = in[24] * v97; /* pd.kp[1] */
    const double v101 = v83 - in[9]; /* robot.qd[1] */
    const double v102 = in[26] * v101; /* pd.kd[1] */
    const double v103 = v98 + v102;
    out[4] = v103; /* pd.tau[1] */
    const double v107 = v73 - in[8]; /* robot.q[2] */
    const double v108 = in[25] * v107; /* pd.kp[2] */
    const double v111 = v93 - in[10]; /* robot.qd[2] */
    const double v112 = in[27] * v111; /* pd.kd[2] */
    const double v113 = v108 + v112;
    out[5] = v113; /* pd.tau[2] */
    out[6] = in[7]; /* robot.q[1] */
    out[7] = in[8]; /* robot.q[2] */
    out[8] = in[9]; /* robot.qd[1] */
    out[9] = in[10]; /* robot.qd[2] */
    const double v119 = cos(in[8]);
    const double v121 = sin(in[8]);
    const double v122 = in[9] * in[9];
    const double v123 = v121 * v122;
    const double v124 = -0.75 * v123;
    const double v126 = 1.5 * v113;
    const double v127 = v124 + v126;
    const double v128 = v119 * v127;
    const double v130 = in[9] + in[10];
    const double v131 = v130 * v130;
    const double v132 = 0.5 * v131;
    const double v133 = v121 * v132;
    const double v134 = v128 - v133;
    const double v135 = v113 + v134;
    const double v136 = v103 - v135;
    const double v137 = v121 * v121;
    const double v138 = -0.75 * v137;
    const double v139 = -0.75 - v138;
    const double v141 = v139 + 1.3333333333333333;
    const double r0 = 1.0 / v141;
    const double v142 = v136 * r0;
    const double v143 = v119 * v121;
    const double v144 = -0.75 * v143;
    const double v145 = v144 * r0;
    const double v146 = cos(in[7]);
    const double v148 = v146 * in[28]; /* robot.gravity[1] */
    const double v149 = sin(in[7]);
    const double v151 = v149 * in[29]; /* robot.gravity[2] */
    const double v152 = v148 + v151;
    const double v153 = v145 * v152;
    const double v154 = v139 + 1.5;
    const double v155 = v154 * r0;
    const double v156 = v149 * in[28];
    const double v157 = v146 * in[29];
    const double v158 = v156 - v157;
    const double v159 = v155 * v158;
    const double v160 = v153 + v159;
    const double v161 = v142 - v160;
    out[10] = v161; /* robot.qdd[1] */
    const double v163 = 3.0 * v113;
    const double v164 = v121 * v152;
    const double v165 = v158 + v161;
    const double v166 = v119 * v165;
    const double v167 = v164 + v166;
    const double v168 = v167 + v123;
    const double v169 = 1.5 * v168;
    const double v170 = v161 + v169;
    const double v171 = v163 - v170;
    out[11] = v171; /* robot.qdd[2] */
    const double v174 = 0.3333333333333333 * in[9];
    const double v175 = in[9] * v174;
    const double r1 = 1.0 / 2.0;
    const double v176 = v175 * r1;
    const double v177 = 0.3333333333333333 * v130;
    const double v178 = v119 * in[9];
    const double v179 = 0.5 * v178;
    const double v180 = v177 + v179;
    const double v181 = v130 * v180;
    const double v182 = v121 * in[9];
    const double v183 = v182 * v182;
    const double v184 = v181 + v183;
    const double v185 = 0.5 * v130;
    const double v186 = v178 + v185;
    const double v187 = v178 * v186;
    const double v188 = v184 + v187;
    const double v189 = v188 * r1;
    const double v190 = v176 + v189;
    const double v191 = 0.5 * v146;
    const double v192 = in[28] * v191;
    const double v193 = 0.5 * v149;
    const double v194 = in[29] * v193;
    const double v195 = v192 + v194;
    const double v196 = v119 * v146;
    const double v197 = v121 * v149;
    const double v198 = v196 - v197;
    const double v199 = 0.5 * v198;
    const double v200 = v146 + v199;
    const double v201 = in[28] * v200;
    const double v202 = v119 * v149;
    const double v203 = v121 * v146;
    const double v204 = v202 + v203;
    const double v205 = 0.5 * v204;
    const double v206 = v149 + v205;
    const double v207 = in[29] * v206;
    const double v208 = v201 + v207;
    const double v209 = v195 + v208;
    const double v210 = v190 - v209;
    out[12] = v210; /* robot.energy */
}

static inline void update(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v4 = in[0] + 4e-09; /* t */
    const double v5 = v4 / 4.0;
    const double v6 = floor(v5);
    const double v7 = 4.0 * v6;
    const double v8 = in[0] - v7;
    const double v9 = v8 + 4e-09;
    const double v10 = (3.0 <= v9) ? 1.0 : 0.0;
    const double v13 = in[22] - in[20]; /* command.table[5,1], command.table[4,1] */
    const double v14 = v8 - 3.0;
    const double v15 = v13 * v14;
    const double v16 = in[20] + v15;
    const double v17 = (v10 != 0.0) ? v16 : 0.0;
    const double v18 = (v10 == 0.0) ? 1.0 : 0.0;
    const double v20 = (2.0 <= v9) ? 1.0 : 0.0;
    const double v22 = in[20] - in[18]; /* command.table[3,1] */
    const double v23 = v8 - 2.0;
    const double v24 = v22 * v23;
    const double v25 = in[18] + v24;
    const double v26 = (v20 != 0.0) ? v25 : 0.0;
    const double v27 = (v20 == 0.0) ? 1.0 : 0.0;
    const double v29 = (1.0 <= v9) ? 1.0 : 0.0;
    const double v31 = in[18] - in[16]; /* command.table[2,1] */
    const double v32 = v8 - 1.0;
    const double v33 = v31 * v32;
    const double v34 = in[16] + v33;
    const double v35 = (v29 != 0.0) ? v34 : 0.0;
    const double v36 = (v29 == 0.0) ? 1.0 : 0.0;
    const double v38 = in[16] - in[14]; /* command.table[1,1] */
    const double v39 = v38 * v8;
    const double v40 = in[14] + v39;
    const double v41 = (v36 != 0.0) ? v40 : 0.0;
    const double v42 = v35 + v41;
    const double v43 = (v27 != 0.0) ? v42 : 0.0;
    const double v44 = v26 + v43;
    const double v45 = (v18 != 0.0) ? v44 : 0.0;
    const double v46 = v17 + v45;
    out[0] = v46; /* command.y[1] */
    const double v50 = in[23] - in[21]; /* command.table[5,2], command.table[4,2] */
    const double v51 = v50 * v14;
    const double v52 = in[21] + v51;
    const double v53 = (v10 != 0.0) ? v52 : 0.0;
    const double v55 = in[21] - in[19]; /* command.table[3,2] */
    const double v56 = v55 * v23;
    const double v57 = in[19] + v56;
    const double v58 = (v20 != 0.0) ? v57 : 0.0;
    const double v60 = in[19] - in[17]; /* command.table[2,2] */
    const double v61 = v60 * v32;
    const double v62 = in[17] + v61;
    const double v63 = (v29 != 0.0) ? v62 : 0.0;
    const double v65 = in[17] - in[15]; /* command.table[1,2] */
    const double v66 = v65 * v8;
    const double v67 = in[15] + v66;
    const double v68 = (v36 != 0.0) ? v67 : 0.0;
    const double v69 = v63 + v68;
    const double v70 = (v27 != 0.0) ? v69 : 0.0;
    const double v71 = v58 + v70;
    const double v72 = (v18 != 0.0) ? v71 : 0.0;
    const double v73 = v53 + v72;
    out[1] = v73; /* command.y[2] */
    const double v75 = (v10 != 0.0) ? v13 : 0.0;
    const double v76 = (v20 != 0.0) ? v22 : 0.0;
    const double v77 = (v29 != 0.0) ? v31 : 0.0;
    const double v78 = (v36 != 0.0) ? v38 : 0.0;
    const double v79 = v77 + v78;
    const double v80 = (v27 != 0.0) ? v79 : 0.0;
    const double v81 = v76 + v80;
    const double v82 = (v18 != 0.0) ? v81 : 0.0;
    const double v83 = v75 + v82;
    out[2] = v83; /* command.slope[1] */
    const double v85 = (v10 != 0.0) ? v50 : 0.0;
    const double v86 = (v20 != 0.0) ? v55 : 0.0;
    const double v87 = (v29 != 0.0) ? v60 : 0.0;
    const double v88 = (v36 != 0.0) ? v65 : 0.0;
    const double v89 = v87 + v88;
    const double v90 = (v27 != 0.0) ? v89 : 0.0;
    const double v91 = v86 + v90;
    const double v92 = (v18 != 0.0) ? v91 : 0.0;
    const double v93 = v85 + v92;
    out[3] = v93; /* command.slope[2] */
    const double v100 = 0.16666666666666666 * in[9]; /* robot.qd[1] */
    const double v106 = cos(in[8]); /* robot.q[2] */
    const double v108 = sin(in[8]);
    const double v109 = in[9] * in[9];
    const double v110 = v108 * v109;
    const double v111 = -0.75 * v110;
    const double v113 = 1.5 * in[6]; /* pd.tau[2] */
    const double v114 = v111 + v113;
    const double v115 = v106 * v114;
    const double v118 = in[9] + in[10]; /* robot.qd[2] */
    const double v119 = v118 * v118;
    const double v120 = 0.5 * v119;
    const double v121 = v108 * v120;
    const double v122 = v115 - v121;
    const double v123 = in[6] + v122;
    const double v124 = in[5] - v123; /* pd.tau[1] */
    const double v125 = v108 * v108;
    const double v126 = -0.75 * v125;
    const double v127 = -0.75 - v126;
    const double v129 = v127 + 1.3333333333333333;
    const double r0 = 1.0 / v129;
    const double v130 = v124 * r0;
    const double v131 = v106 * v108;
    const double v132 = -0.75 * v131;
    const double v133 = v132 * r0;
    const double v134 = cos(in[7]); /* robot.q[1] */
    const double v136 = v134 * in[28]; /* robot.gravity[1] */
    const double v137 = sin(in[7]);
    const double v139 = v137 * in[29]; /* robot.gravity[2] */
    const double v140 = v136 + v139;
    const double v141 = v133 * v140;
    const double v142 = v127 + 1.5;
    const double v143 = v142 * r0;
    const double v144 = v137 * in[28];
    const double v145 = v134 * in[29];
    const double v146 = v144 - v145;
    const double v147 = v143 * v146;
    const double v148 = v141 + v147;
    const double v149 = v130 - v148;
    const double v150 = 0.0005 * v149;
    const double v151 = in[9] + v150;
    const double v152 = 0.3333333333333333 * v151;
    const double v153 = v100 + v152;
    const double v154 = 0.0005 * in[10];
    const double v155 = in[8] + v154;
    const double v156 = cos(v155);
    const double v157 = sin(v155);
    const double v158 = v151 * v151;
    const double v159 = v157 * v158;
    const double v160 = -0.75 * v159;
    const double v161 = v160 + v113;
    const double v162 = v156 * v161;
    const double v163 = 3.0 * in[6];
    const double v164 = v108 * v140;
    const double v165 = v146 + v149;
    const double v166 = v106 * v165;
    const double v167 = v164 + v166;
    const double v168 = v167 + v110;
    const double v169 = 1.5 * v168;
    const double v170 = v149 + v169;
    const double v171 = v163 - v170;
    const double v172 = 0.0005 * v171;
    const double v173 = in[10] + v172;
    const double v174 = v151 + v173;
    const double v175 = v174 * v174;
    const double v176 = 0.5 * v175;
    const double v177 = v157 * v176;
    const double v178 = v162 - v177;
    const double v179 = in[6] + v178;
    const double v180 = in[5] - v179;
    const double v181 = v157 * v157;
    const double v182 = -0.75 * v181;
    const double v183 = -0.75 - v182;
    const double v184 = v183 + 1.3333333333333333;
    const double r1 = 1.0 / v184;
    const double v185 = v180 * r1;
    const double v186 = v156 * v157;
    const double v187 = -0.75 * v186;
    const double v188 = v187 * r1;
    const double v189 = 0.0005 * in[9];
    const double v190 = in[7] + v189;
    const double v191 = cos(v190);
    const double v192 = v191 * in[28];
    const double v193 = sin(v190);
    const double v194 = v193 * in[29];
    const double v195 = v192 + v194;
    const double v196 = v188 * v195;
    const double v197 = v183 + 1.5;
    const double v198 = v197 * r1;
    const double v199 = v193 * in[28];
    const double v200 = v191 * in[29];
    const double v201 = v199 - v200;
    const double v202 = v198 * v201;
    const double v203 = v196 + v202;
    const double v204 = v185 - v203;
    const double v205 = 0.0005 * v204;
    const double v206 = in[9] + v205;
    const double v207 = 0.3333333333333333 * v206;
    const double v208 = v153 + v207;
    const double v209 = 0.0005 * v173;
    const double v210 = in[8] + v209;
    const double v211 = cos(v210);
    const double v212 = sin(v210);
    const double v213 = v206 * v206;
    const double v214 = v212 * v213;
    const double v215 = -0.75 * v214;
    const double v216 = v215 + v113;
    const double v217 = v211 * v216;
    const double v218 = v157 * v195;
    const double v219 = v201 + v204;
    const double v220 = v156 * v219;
    const double v221 = v218 + v220;
    const double v222 = v221 + v159;
    const double v223 = 1.5 * v222;
    const double v224 = v204 + v223;
    const double v225 = v163 - v224;
    const double v226 = 0.0005 * v225;
    const double v227 = in[10] + v226;
    const double v228 = v206 + v227;
    const double v229 = v228 * v228;
    const double v230 = 0.5 * v229;
    const double v231 = v212 * v230;
    const double v232 = v217 - v231;
    const double v233 = in[6] + v232;
    const double v234 = in[5] - v233;
    const double v235 = v212 * v212;
    const double v236 = -0.75 * v235;
    const double v237 = -0.75 - v236;
    const double v238 = v237 + 1.3333333333333333;
    const double r2 = 1.0 / v238;
    const double v239 = v234 * r2;
    const double v240 = v211 * v212;
    const double v241 = -0.75 * v240;
    const double v242 = v241 * r2;
    const double v243 = 0.0005 * v151;
    const double v244 = in[7] + v243;
    const double v245 = cos(v244);
    const double v246 = v245 * in[28];
    const double v247 = sin(v244);
    const double v248 = v247 * in[29];
    const double v249 = v246 + v248;
    const double v250 = v242 * v249;
    const double v251 = v237 + 1.5;
    const double v252 = v251 * r2;
    const double v253 = v247 * in[28];
    const double v254 = v245 * in[29];
    const double v255 = v253 - v254;
    const double v256 = v252 * v255;
    const double v257 = v250 + v256;
    const double v258 = v239 - v257;
    const double v259 = 0.001 * v258;
    const double v260 = in[9] + v259;
    const double v261 = 0.16666666666666666 * v260;
    const double v262 = v208 + v261;
    const double v263 = 0.001 * v262;
    const double v264 = in[7] + v263;
    const double v265 = v46 - v264;
    const double v266 = in[24] * v265; /* pd.kp[1] */
    const double v268 = 0.16666666666666666 * v149;
    const double v269 = 0.3333333333333333 * v204;
    const double v270 = v268 + v269;
    const double v271 = 0.3333333333333333 * v258;
    const double v272 = v270 + v271;
    const double v273 = 0.001 * v227;
    const double v274 = in[8] + v273;
    const double v275 = cos(v274);
    const double v276 = sin(v274);
    const double v277 = v260 * v260;
    const double v278 = v276 * v277;
    const double v279 = -0.75 * v278;
    const double v280 = v279 + v113;
    const double v281 = v275 * v280;
    const double v282 = v212 * v249;
    const double v283 = v255 + v258;
    const double v284 = v211 * v283;
    const double v285 = v282 + v284;
    const double v286 = v285 + v214;
    const double v287 = 1.5 * v286;
    const double v288 = v258 + v287;
    const double v289 = v163 - v288;
    const double v290 = 0.001 * v289;
    const double v291 = in[10] + v290;
    const double v292 = v260 + v291;
    const double v293 = v292 * v292;
    const double v294 = 0.5 * v293;
    const double v295 = v276 * v294;
    const double v296 = v281 - v295;
    const double v297 = in[6] + v296;
    const double v298 = in[5] - v297;
    const double v299 = v276 * v276;
    const double v300 = -0.75 * v299;
    const double v301 = -0.75 - v300;
    const double v302 = v301 + 1.3333333333333333;
    const double r3 = 1.0 / v302;
    const double v303 = v298 * r3;
    const double v304 = v275 * v276;
    const double v305 = -0.75 * v304;
    const double v306 = v305 * r3;
    const double v307 = 0.001 * v206;
    const double v308 = in[7] + v307;
    const double v309 = cos(v308);
    const double v310 = v309 * in[28];
    const double v311 = sin(v308);
    const double v312 = v311 * in[29];
    const double v313 = v310 + v312;
    const double v314 = v306 * v313;
    const double v315 = v301 + 1.5;
    const double v316 = v315 * r3;
    const double v317 = v311 * in[28];
    const double v318 = v309 * in[29];
    const double v319 = v317 - v318;
    const double v320 = v316 * v319;
    const double v321 = v314 + v320;
    const double v322 = v303 - v321;
    const double v323 = 0.16666666666666666 * v322;
    const double v324 = v272 + v323;
    const double v325 = 0.001 * v324;
    const double v326 = in[9] + v325;
    const double v327 = v83 - v326;
    const double v328 = in[26] * v327; /* pd.kd[1] */
    const double v329 = v266 + v328;
    out[4] = v329; /* pd.tau[1] */
    const double v332 = 0.16666666666666666 * in[10];
    const double v333 = 0.3333333333333333 * v173;
    const double v334 = v332 + v333;
    const double v335 = 0.3333333333333333 * v227;
    const double v336 = v334 + v335;
    const double v337 = 0.16666666666666666 * v291;
    const double v338 = v336 + v337;
    const double v339 = 0.001 * v338;
    const double v340 = in[8] + v339;
    const double v341 = v73 - v340;
    const double v342 = in[25] * v341; /* pd.kp[2] */
    const double v344 = 0.16666666666666666 * v171;
    const double v345 = 0.3333333333333333 * v225;
    const double v346 = v344 + v345;
    const double v347 = 0.3333333333333333 * v289;
    const double v348 = v346 + v347;
    const double v349 = v276 * v313;
    const double v350 = v319 + v322;
    const double v351 = v275 * v350;
    const double v352 = v349 + v351;
    const double v353 = v352 + v278;
    const double v354 = 1.5 * v353;
    const double v355 = v322 + v354;
    const double v356 = v163 - v355;
    const double v357 = 0.16666666666666666 * v356;
    const double v358 = v348 + v357;
    const double v359 = 0.001 * v358;
    const double v360 = in[10] + v359;
    const double v361 = v93 - v360;
    const double v362 = in[27] * v361; /* pd.kd[2] */
    const double v363 = v342 + v362;
    out[5] = v363; /* pd.tau[2] */
    out[6] = v264; /* robot.q[1] */
    out[7] = v340; /* robot.q[2] */
    out[8] = v326; /* robot.qd[1] */
    out[9] = v360; /* robot.qd[2] */
    const double v369 = cos(v340);
    const double v370 = sin(v340);
    const double v371 = v326 * v326;
    const double v372 = v370 * v371;
    const double v373 = -0.75 * v372;
    const double v374 = v373 + v113;
    const double v375 = v369 * v374;
    const double v376 = v326 + v360;
    const double v377 = v376 * v376;
    const double v378 = 0.5 * v377;
    const double v379 = v370 * v378;
    const double v380 = v375 - v379;
    const double v381 = in[6] + v380;
    const double v382 = in[5] - v381;
    const double v383 = v370 * v370;
    const double v384 = -0.75 * v383;
    const double v385 = -0.75 - v384;
    const double v386 = v385 + 1.3333333333333333;
    const double r4 = 1.0 / v386;
    const double v387 = v382 * r4;
    const double v388 = v369 * v370;
    const double v389 = -0.75 * v388;
    const double v390 = v389 * r4;
    const double v391 = cos(v264);
    const double v392 = v391 * in[28];
    const double v393 = sin(v264);
    const double v394 = v393 * in[29];
    const double v395 = v392 + v394;
    const double v396 = v390 * v395;
    const double v397 = v385 + 1.5;
    const double v398 = v397 * r4;
    const double v399 = v393 * in[28];
    const double v400 = v391 * in[29];
    const double v401 = v399 - v400;
    const double v402 = v398 * v401;
    const double v403 = v396 + v402;
    const double v404 = v387 - v403;
    out[10] = v404; /* robot.qdd[1] */
    const double v406 = v370 * v395;
    const double v407 = v401 + v404;
    const double v408 = v369 * v407;
    const double v409 = v406 + v408;
    const double v410 = v409 + v372;
    const double v411 = 1.5 * v410;
    const double v412 = v404 + v411;
    const double v413 = v163 - v412;
    out[11] = v413; /* robot.qdd[2] */
    const double v415 = 0.3333333333333333 * v326;
    const double v416 = v326 * v415;
    const double r5 = 1.0 / 2.0;
    const double v417 = v416 * r5;
    const double v418 = 0.3333333333333333 * v376;
    const double v419 = v369 * v326;
    const double v420 = 0.5 * v419;
    const double v421 = v418 + v420;
    const double v422 = v376 * v421;
    const double v423 = v370 * v326;
    const double v424 = v423 * v423;
    const double v425 = v422 + v424;
    const double v426 = 0.5 * v376;
    const double v427 = v419 + v426;
    const double v428 = v419 * v427;
    const double v429 = v425 + v428;
    const double v430 = v429 * r5;
    const double v431 = v417 + v430;
    const double v432 = 0.5 * v391;
    const double v433 = in[28] * v432;
    const double v434 = 0.5 * v393;
    const double v435 = in[29] * v434;
    const double v436 = v433 + v435;
    const double v437 = v369 * v391;
    const double v438 = v370 * v393;
    const double v439 = v437 - v438;
    const double v440 = 0.5 * v439;
    const double v441 = v391 + v440;
    const double v442 = in[28] * v441;
    const double v443 = v369 * v393;
    const double v444 = v370 * v391;
    const double v445 = v443 + v444;
    const double v446 = 0.5 * v445;
    const double v447 = v393 + v446;
    const double v448 = in[29] * v447;
    const double v449 = v442 + v448;
    const double v450 = v436 + v449;
    const double v451 = v431 - v450;
    out[12] = v451; /* robot.energy */
}

static inline void output(const double *in, double *out)
{
    (void)in;
    (void)out;
}

#endif
