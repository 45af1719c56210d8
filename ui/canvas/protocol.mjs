// Writes src/protocol.ts from the Python models and constants, so that both sides of the link agree by construction.
//
//     npm run types                  writes src/protocol.ts
//     node protocol.mjs OTHER.ts     writes elsewhere, to be compared
//
// Python is $PYTHON, else the checkout's .venv, else python3.

import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compile } from 'json-schema-to-typescript';
import { format, resolveConfig } from 'prettier';

const here = dirname(fileURLToPath(import.meta.url));
const checkout = join(here, '..', '..');
const target = process.argv[2] ?? join(here, 'src', 'protocol.ts');

const inVenv = join(checkout, '.venv', 'bin', 'python');
const python = process.env.PYTHON ?? (existsSync(inVenv) ? inVenv : 'python3');
const printed = execFileSync(python, ['-m', 'ui.protocol'], { cwd: checkout, encoding: 'utf8' });
const { schema, constants } = JSON.parse(printed);

const definitions = schema.definitions;
// A schema without constraints would become `unknown`, which hides that it is JSON.
definitions.JsonValue = {
  tsType: 'null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue }',
};
// Pydantic writes unions of models in place; the canvas wants them by name.
for (const [holder, field, name] of [
  ['Sent', 'command', 'Command'],
  ['Posted', 'notice', 'Notice'],
]) {
  const properties = definitions[holder].properties;
  definitions[name] = properties[field];
  properties[field] = { $ref: `#/definitions/${name}` };
}

const text = await compile(schema, schema.title, {
  additionalProperties: false,
  bannerComment: '// Made from ui/protocol/ by `npm run types`. Do not edit.',
  unreachableDefinitions: true,
});
const types = text
  // The schema's root has no properties of its own.
  .replace(/export interface Protocol \{[^}]*\}\n/, '')
  // Where in the schema a type comes from tells its reader nothing.
  .replace(
    /\/\*\*\n \* This interface was referenced by `Protocol`'s JSON-Schema\n \* via the `definition` "\w+"\.\n \*\/\n/g,
    '',
  )
  .replace(
    / \*\n \* This interface was referenced by `Protocol`'s JSON-Schema\n \* via the `definition` "\w+"\.\n/g,
    '',
  )
  // Only a type alias is seen to fit JsonValue's index signature: a DocNode is a value of an Op.
  .replace(/export interface (\w+) \{([\s\S]*?)\n\}/g, 'export type $1 = {$2\n};');
if (types.includes('Protocol') || types.includes('interface'))
  throw new Error('json-schema-to-typescript writes otherwise now: adapt the replacements');
const style = await resolveConfig(join(here, 'src', 'protocol.ts'));
const values = constants.map(
  ({ name, type, value, comment }) => `/** ${comment} */\nexport const ${name}: ${type} = ${JSON.stringify(value)};\n`,
);
writeFileSync(target, await format([types, ...values].join('\n'), { ...style, parser: 'typescript' }));
