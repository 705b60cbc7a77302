// Asks a server with Anthropic's library: node anthropic.mjs FOLDER BASE_URL KEY MODEL ask|faults. FOLDER has node_modules in it.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [folder, baseURL, apiKey, model, part] = process.argv.slice(2);
const Anthropic = createRequire(folder + "/package.json")("@anthropic-ai/sdk");
const client = new Anthropic({ baseURL, apiKey, maxRetries: 0 });
const usual = { model, max_tokens: 500, messages: [{ role: "user", content: "The total price is EUR 75. How much is that?" }] };
const schema = { type: "object", properties: { amount: { type: "number" } }, required: ["amount"], additionalProperties: false };

async function fails(kind, status, type, asked, by = client) {
  await assert.rejects(by.messages.create({ ...usual, ...asked }), (e) => {
    assert.ok(e instanceof kind, `${e.constructor.name} in place of ${kind.name}: ${e.message}`);
    assert.equal(e.status, status);
    assert.equal(e.error.error.type, type);
    assert.equal(e.requestID, e.error.request_id);
    return true;
  });
}

async function ask() {
  const whole = await client.messages.create(usual);
  assert.equal(whole.stop_reason, "end_turn");
  assert.ok(whole.content[0].text);

  const streamed = await client.messages.stream(usual).finalMessage();
  assert.equal(streamed.content[0].text, whole.content[0].text);
  assert.equal(streamed.usage.output_tokens, whole.usage.output_tokens);
  assert.equal(streamed.usage.input_tokens, whole.usage.input_tokens);

  const structured = await client.messages.create({ ...usual, output_config: { format: { type: "json_schema", schema } } });
  assert.equal(JSON.parse(structured.content[0].text).amount, 75);

  const tools = [{ name: "convert", input_schema: schema }];
  const called = await client.messages.create({ ...usual, tools, tool_choice: { type: "tool", name: "convert" } });
  assert.equal(called.stop_reason, "tool_use");
  assert.equal(called.content[0].input.amount, 75);

  const stranger = new Anthropic({ baseURL, apiKey: "no-such-key", maxRetries: 0 });
  await fails(Anthropic.AuthenticationError, 401, "authentication_error", {}, stranger);
  await fails(Anthropic.NotFoundError, 404, "not_found_error", { model: "no-such-model" });
  await fails(Anthropic.BadRequestError, 400, "invalid_request_error", { messages: [] });
}

async function faults() {
  const fault = (name) => ({ model: `${model}?${name}` });
  await fails(Anthropic.RateLimitError, 429, "rate_limit_error", fault("429=2s"));
  await fails(Anthropic.PermissionDeniedError, 403, "permission_error", fault("403"));
  await fails(Anthropic.InternalServerError, 500, "api_error", fault("500"));
  await fails(Anthropic.InternalServerError, 529, "overloaded_error", fault("529"));
  await fails(Anthropic.BadRequestError, 400, "invalid_request_error", fault("context_length"));
  await assert.rejects(client.messages.create({ ...usual, ...fault("cut") }), Anthropic.APIConnectionError);
  await assert.rejects(client.messages.stream({ ...usual, ...fault("error_event=1") }).finalMessage(), (e) => {
    assert.ok(e instanceof Anthropic.APIError);
    assert.match(e.message, /overloaded_error/);
    return true;
  });
}

await { ask, faults }[part]();
console.log("all is well");
