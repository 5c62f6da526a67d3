// What runs in the page of credentials.mjs. The upstream answers with the fields that it has seen.
import { clients } from '../interop/browser_clients.mjs';

const numberOf = (name) => clients('').findIndex((client) => client.name === name);

window.client_names = () => clients('').map((client) => client.name);

// A unary call, or one with a stream of replies: { seen, headers }, or { error }.
window.call = async (base, name, { credentials, stream, meta }) => {
  const client = clients(base, credentials)[numberOf(name)];
  try {
    if (!stream) {
      const { message, headers } = await client.unary('x', { meta });
      return { seen: JSON.parse(message), headers };
    }
    const messages = [];
    const { headers } = await client.stream('x', { meta }, (message) => messages.push(message));
    return { seen: JSON.parse(messages[0]), headers };
  } catch (error) {
    return { error: `${error.code} ${error.message}` };
  }
};
