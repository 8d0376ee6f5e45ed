#ifndef RB_STEPS_H
#define RB_STEPS_H

#include "sine.h"

enum { RB_SIZE = 9 };
static void advance(const real *in, real *out)
{
    (void)in;
    (void)out;
    const real v2 = in[0] + lanes(0.001);
    out[0] = v2;
    const real v8 = in[3] * in[2];
    const real v9 = lanes(0.16666666666666666) * v8;
    const real v14 = in[7] * in[3];
    const real v15 = in[4] - v14;
    const real r0 = lanes(1.0) / in[6];
    const real v17 = v15 * r0;
    const real v18 = lanes(0.0005) * v17;
    const real v19 = in[3] + v18;
    const real v20 = in[3] * in[1];
    const real v21 = lanes(0.0005) * v20;
    const real v22 = in[2] + v21;
    const real v23 = v19 * v22;
    const real v24 = lanes(0.3333333333333333) * v23;
    const real v25 = v9 + v24;
    const real v26 = in[7] * v19;
    const real v27 = in[4] - v26;
    const real v28 = v27 * r0;
    const real v29 = lanes(0.0005) * v28;
    const real v30 = in[3] + v29;
    const real v31 = lanes(0.0005) * v8;
    const real v32 = in[1] - v31;
    const real v33 = v19 * v32;
    const real v34 = lanes(0.0005) * v33;
    const real v35 = in[2] + v34;
    const real v36 = v30 * v35;
    const real v37 = lanes(0.3333333333333333) * v36;
    const real v38 = v25 + v37;
    const real v39 = in[7] * v30;
    const real v40 = in[4] - v39;
    const real v41 = v40 * r0;
    const real v42 = lanes(0.001) * v41;
    const real v43 = in[3] + v42;
    const real v44 = lanes(0.0005) * v23;
    const real v45 = in[1] - v44;
    const real v46 = v30 * v45;
    const real v47 = lanes(0.001) * v46;
    const real v48 = in[2] + v47;
    const real v49 = v43 * v48;
    const real v50 = lanes(0.16666666666666666) * v49;
    const real v51 = v38 + v50;
    const real v52 = lanes(0.001) * v51;
    const real v53 = in[1] - v52;
    const real v54 = v53 * v53;
    const real v55 = lanes(0.16666666666666666) * v20;
    const real v56 = lanes(0.3333333333333333) * v33;
    const real v57 = v55 + v56;
    const real v58 = lanes(0.3333333333333333) * v46;
    const real v59 = v57 + v58;
    const real v60 = lanes(0.001) * v36;
    const real v61 = in[1] - v60;
    const real v62 = v43 * v61;
    const real v63 = lanes(0.16666666666666666) * v62;
    const real v64 = v59 + v63;
    const real v65 = lanes(0.001) * v64;
    const real v66 = in[2] + v65;
    const real v67 = v66 * v66;
    const real v68 = v54 + v67;
    const real v69 = square_root(v68);
    const real r1 = lanes(1.0) / v69;
    const real v70 = v53 * r1;
    out[1] = v70;
    const real v72 = v66 * r1;
    out[2] = v72;
    const real v74 = lanes(0.16666666666666666) * v17;
    const real v75 = lanes(0.3333333333333333) * v28;
    const real v76 = v74 + v75;
    const real v77 = lanes(0.3333333333333333) * v41;
    const real v78 = v76 + v77;
    const real v79 = in[7] * v43;
    const real v80 = in[4] - v79;
    const real v81 = v80 * r0;
    const real v82 = lanes(0.16666666666666666) * v81;
    const real v83 = v78 + v82;
    const real v84 = lanes(0.001) * v83;
    const real v85 = in[3] + v84;
    out[3] = v85;
    const real v88 = v2 / lanes(0.002);
    const real v90 = v88 + lanes(0.5);
    const real v91 = rounded_down(v90);
    const real v92 = v88 - v91;
    const real v93 = magnitude(v92);
    const real v95 = truth((bits)(v93 < lanes(1e-06)));
    const real v97 = in[5] - v85;
    const real v98 = v97 + v97;
    const real v99 = masked((bits)(v95 != lanes(0.0)), v98);
    const real v100 = truth((bits)(v95 == lanes(0.0)));
    const real v101 = masked((bits)(v100 != lanes(0.0)), in[4]);
    const real v102 = v99 + v101;
    out[4] = v102;
    out[5] = in[5];
    out[6] = in[6];
    out[7] = in[7];
    const real v107 = v102 * v85;
    out[8] = v107;
}

static void begin(const real *in, real *out)
{
    (void)in;
    (void)out;
    out[0] = in[0];
    const real v3 = in[1] * in[1];
    const real v5 = in[2] * in[2];
    const real v6 = v3 + v5;
    const real v7 = square_root(v6);
    const real r0 = lanes(1.0) / v7;
    const real v8 = in[1] * r0;
    out[1] = v8;
    const real v10 = in[2] * r0;
    out[2] = v10;
    out[3] = in[3];
    const real v15 = in[5] - in[3];
    const real v16 = v15 + v15;
    out[4] = v16;
    out[5] = in[5];
    out[6] = in[6];
    out[7] = in[7];
    const real v23 = v16 * in[3];
    out[8] = v23;
}
static const double RB_DT = 0.001;

#endif
