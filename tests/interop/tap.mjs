// TAP for the clients that run on Node: cases are awaited one after the other.
let number = 0;
let failures = 0;

export async function test(name, body) {
  number++;
  try {
    await body();
    console.log(`ok ${number} - ${name}`);
  } catch (error) {
    failures++;
    console.log(`not ok ${number} - ${name}`);
    console.error(`${name}: ${error.stack ?? error}`);
  }
}

export function done() {
  console.log(`1..${number}`);
  process.exitCode = failures === 0 && number > 0 ? 0 : 1;
}
