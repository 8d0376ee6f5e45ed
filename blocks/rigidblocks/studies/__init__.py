"""Studies that run one system many times: parameter sweeps, parameter estimation, requirements."""
