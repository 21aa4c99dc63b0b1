"""What the two scripts that save Keras models share: an archive that is the same in every run."""

import re
import zipfile


def settle(path, deflate):
    """Sets dates and object ids to 0, and packs the members where `deflate`."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["config.json"] = re.sub(rb'("shared_object_id": )\d+', rb"\g<1>0",
                                    members["config.json"])
    members["metadata.json"] = re.sub(rb'("date_saved": )"[^"]*"', rb'\1"2026-01-01@00:00:00"',
                                      members["metadata.json"])
    method = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
