// Bundles of Sigstore's own library for JavaScript, in both directions; scripts/test-sigstore runs it.
//   node sigstore.mjs sign KEY PUB FILE      prints a bundle
//   node sigstore.mjs verify PUB FILE        verifies FILE.sigstore.json
import { createHash, createPublicKey, createPrivateKey, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(process.cwd() + '/');
const { bundleFromJSON, bundleToJSON, toMessageSignatureBundle } = require('@sigstore/bundle');
const { toSignedEntity, Verifier } = require('@sigstore/verify');

const [verb, ...files] = process.argv.slice(2);
const read = (path) => readFileSync(path);
const hintOf = (key) =>
  createHash('sha256').update(key.export({ type: 'spki', format: 'der' })).digest('base64');

if (verb === 'sign') {
  const [key, pub, file] = files.map(read);
  const bundle = toMessageSignatureBundle({
    digest: createHash('sha256').update(file).digest(),
    signature: sign('sha256', file, createPrivateKey(key)),
    keyHint: hintOf(createPublicKey(pub)),
    // Version 0.3; with a chain it would be 0.2.
    certificateChain: false,
  });
  console.log(JSON.stringify(bundleToJSON(bundle)));
} else {
  const [pub, file] = files.map(read);
  const key = createPublicKey(pub);
  const bundle = bundleFromJSON(JSON.parse(read(files[1] + '.sigstore.json')));
  const trust = {
    certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [],
    publicKey: (hint) => {
      if (hint !== hintOf(key)) throw new Error(`the hint is ${hint}, not ${hintOf(key)}`);
      return { publicKey: key, validFor: () => true };
    },
  };
  const verifier = new Verifier(trust, { ctlogThreshold: 0, tlogThreshold: 0, timestampThreshold: 0 });
  verifier.verify(toSignedEntity(bundle, file));
}
