"""Files of SSP of a text and of FMUs."""

import zipfile

NS = "http://ssp-standard.org/SSP1/SystemStructure"


def archive(path, text, fmus, **more):
    """An .ssp of a description, with FMUs by the names that it has for them."""
    spaces = " ".join(
        f'xmlns:{p}="{NS}{n}"'
        for p, n in {
            "ssc": "Common",
            "ssd": "Description",
            "ssv": "ParameterValues",
            "ssm": "ParameterMapping",
        }.items()
    )
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("SystemStructure.ssd", text.replace("SPACES", spaces))
        for name, content in more.items():
            file.writestr(name.replace("_dot_", "."), content.replace("SPACES", spaces))
        for name, fmu in fmus.items():
            file.write(fmu, f"resources/{name}.fmu")
    return path
