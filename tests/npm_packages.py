"""Installs packages of npm for tests of clients."""
import os
import subprocess


def install(folder, package):
    """Installs a package into the folder. Returns "" or why it cannot."""
    with open(os.path.join(folder, "package.json"), "w") as file:
        file.write('{"private": true}')
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", package]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return "" if run.returncode == 0 else f"npm cannot install {package}: {run.stderr.strip()[-200:]}"
