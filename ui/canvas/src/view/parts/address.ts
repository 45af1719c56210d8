/** The page's address, which names the pipeline that is shown. */

const PIPELINE = 'pipeline';

/**
 * Name the document in an address that names none, as that of the menu. Where it names another, Python names this one:
 * that is a step which the browser can go back.
 */
export function completeAddress(document: string): void {
  const address = new URL(location.href);
  if (address.searchParams.has(PIPELINE)) return;
  address.searchParams.set(PIPELINE, document);
  history.replaceState(history.state, '', address);
}
