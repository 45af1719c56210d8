// Azurite's blob service, which ends when its standard input does: no server outlives the tests.
process.stdin.on("end", () => process.exit(0)).resume();
require("azurite/dist/src/blob/main.js");
