import { createClient, NotSent } from "./client.js";

const form = document.querySelector("form");
const state = document.querySelector("#state");
const { url, plan, epsilon, delta } = form.dataset;

/** Send a report that is kept on this device, now or when there is a network again. */
async function send(report) {
  state.textContent = "Sending …";
  try {
    await report.send();
    state.textContent = report.earlier ? "Your first answer has arrived; it is the one that counts." : "Your answer has arrived.";
  } catch (fault) {
    if (!(fault instanceof NotSent)) throw fault;
    state.textContent = "Your answer is kept, and will be sent when there is a network.";
    await new Promise((resolve) => addEventListener("online", resolve, { once: true }));
    await send(report);
  }
}

function show(fault) {
  state.textContent = `${fault.name}: ${fault.message}`;
}

try {
  const client = await createClient({ url, plan, within: { epsilon: Number(epsilon), delta: Number(delta) } });
  document.querySelector("#promise").textContent = client.guarantee.sentence;
  form.querySelector("fieldset").disabled = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const answer = new FormData(form).get("answer");
    form.querySelector("fieldset").disabled = true;
    // After a reload this is the report of the first answer: nothing is drawn twice.
    await client.report(answer).then(send).catch(show);
  });
} catch (fault) {
  show(fault);
}
