// Asks a server with OpenAI's library: node openai.mjs FOLDER BASE_URL KEY MODEL ask|faults|endpoint. FOLDER has node_modules in it.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [folder, baseURL, apiKey, model, part] = process.argv.slice(2);
const OpenAI = createRequire(folder + "/package.json")("openai");
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "The total price is EUR 75. How much is that?" }];
const schema = { type: "object", properties: { amount: { type: "number" } }, required: ["amount"], additionalProperties: false };

async function fails(kind, status, code, asked, by = client) {
  await assert.rejects(by.chat.completions.create({ model, messages, ...asked }), (e) => {
    assert.ok(e instanceof kind, `${e.constructor.name} in place of ${kind.name}: ${e.message}`);
    assert.equal(e.status, status);
    if (code !== undefined) assert.equal(e.code ?? null, code); // undefined: the server's own affair
    assert.ok(e.requestID, "no request id");
    return true;
  });
}

async function ask() {
  const whole = await client.chat.completions.create({ model, messages });
  assert.equal(whole.choices[0].finish_reason, "stop");
  assert.ok(whole.choices[0].message.content);
  assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);

  let text = "", usage, finish;
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.delta?.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, "stop");
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);

  const response_format = { type: "json_schema", json_schema: { name: "answer", strict: true, schema } };
  const structured = await client.chat.completions.parse({ model, messages, response_format });
  assert.equal(JSON.parse(structured.choices[0].message.content).amount, 75);

  const embedded = await client.embeddings.create({ model, input: ["one", "two"], dimensions: 16 });
  assert.equal(embedded.data[1].embedding.length, 16);

  const stranger = new OpenAI({ baseURL, apiKey: "no-such-key", maxRetries: 0 });
  await fails(OpenAI.AuthenticationError, 401, "invalid_api_key", {}, stranger);
  await fails(OpenAI.NotFoundError, 404, "model_not_found", { model: "no-such-model" });
  await fails(OpenAI.BadRequestError, 400, undefined, { messages: [] });
}

async function faults() {
  const fault = (name) => ({ model: `${model}?${name}` });
  await fails(OpenAI.RateLimitError, 429, "rate_limit_exceeded", fault("429=2s"));
  await fails(OpenAI.RateLimitError, 429, "insufficient_quota", fault("quota"));
  await fails(OpenAI.PermissionDeniedError, 403, null, fault("403"));
  await fails(OpenAI.ConflictError, 409, null, fault("409"));
  await fails(OpenAI.UnprocessableEntityError, 422, null, fault("422"));
  await fails(OpenAI.BadRequestError, 400, "context_length_exceeded", fault("context_length"));
  await fails(OpenAI.InternalServerError, 500, null, fault("500"));
  await fails(OpenAI.InternalServerError, 503, "server_is_overloaded", fault("503"));
  await assert.rejects(client.chat.completions.create({ messages, ...fault("cut") }), OpenAI.APIConnectionError);
  const hasty = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 300 });
  await assert.rejects(hasty.chat.completions.create({ messages, ...fault("hang") }), OpenAI.APIConnectionTimeoutError);
  await assert.rejects(async () => {
    for await (const chunk of await client.chat.completions.create({ messages, stream: true, ...fault("cut_body=1") })) assert.ok(chunk);
  });
  const tools = [{ type: "function", function: { name: "convert", parameters: schema } }];
  const called = await client.chat.completions.create({ model, messages, tools, tool_choice: "required" });
  assert.equal(JSON.parse(called.choices[0].message.tool_calls[0].function.arguments).amount, 75);
}

// endpoint asks for what only Pawl's own has: answers that are replayed, and budgets.
async function endpoint() {
  const once = { headers: { "Idempotency-Key": "order-of-node" } };
  const first = await client.chat.completions.create({ model, messages }, once).withResponse();
  const again = await client.chat.completions.create({ model, messages }, once).withResponse();
  assert.equal(first.response.headers.get("x-pawl-replayed"), null);
  assert.equal(again.response.headers.get("x-pawl-replayed"), "true");
  assert.equal(again.data.choices[0].message.content, first.data.choices[0].message.content);
  await assert.rejects(client.chat.completions.create({ model, messages, temperature: 0.5 }, once), OpenAI.UnprocessableEntityError);

  const poor = new OpenAI({ baseURL, apiKey, maxRetries: 0, defaultHeaders: { "x-pawl-budget-usd": "0.000000001" } });
  await fails(OpenAI.RateLimitError, 429, "insufficient_quota", {}, poor);
  await fails(OpenAI.BadRequestError, 400, "unsupported_parameter", { n: 2 });

  const names = [];
  for await (const known of client.models.list()) names.push(known.id);
  assert.ok(names.includes(model), names.join());
  await assert.rejects(client.models.retrieve("no-such-model"), OpenAI.NotFoundError);
}

await { ask, faults, endpoint }[part]();
console.log("all is well");
