-- The call log holds no personal data but in what providers answered; the first byte is timed; and answers may be read again.

-- +goose Up

COMMENT ON COLUMN llm.llm_call_log.request IS
    'Route, messages, schema, tools and sampling parameters, as canonical JSON in which personal data and secrets are masked; null '
    'where prompts are not to be kept. The call key is that of the unmasked request.';
COMMENT ON COLUMN llm.llm_try.answer IS
    'What came back, byte for byte. It is not masked, because it is paid, and read again: it may hold personal data.';
COMMENT ON COLUMN llm.llm_try.message IS 'The failure in words; what the provider said is masked.';

-- When a stored answer, first taken for none, was read again and found good: a step that asks the same once more gets it.
ALTER TABLE llm.llm_call_log
    ADD COLUMN corrected_at  timestamptz,
    -- The number of the question that got it.
    ADD COLUMN corrected_for integer;

-- From the first byte sent to the first one received that says something; NULL when none came, or an older gateway asked.
ALTER TABLE llm.llm_try ADD COLUMN first_byte interval;
