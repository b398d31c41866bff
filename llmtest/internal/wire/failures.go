package wire

// The tables of failures: what each API says. Written from what tells them apart: status, type, code and the telling phrase.

var openaiFailures = map[Failure]told{
	RateLimited: {
		429, "{unit}", "rate_limit_exceeded", "",
		"Rate limit reached for {model} in organization org-madeup on {unit} per {min}: Limit {max}, Used {max}, " +
			"Requested 1.",
	},
	Quota: {
		429, "insufficient_quota", "insufficient_quota", "",
		"You exceeded your current quota, please check your plan and billing details.",
	},
	Overloaded: {
		503, "server_error", "", "",
		"That model is currently overloaded with other requests. You can retry your request.",
	},
	Unavailable: {503, "server_error", "", "", "The service is temporarily unavailable."},
	ServerError: {
		500, "server_error", "", "",
		"The server had an error while processing your request. Sorry about that!",
	},
	Timeout: {504, "timeout", "", "", "Request timed out."},
	Auth: {
		401, "invalid_request_error", "invalid_api_key", "",
		"Incorrect API key provided. You can find your API key in your account's settings.",
	},
	Forbidden: {
		403, "request_forbidden", "unsupported_country_region_territory", "",
		"Country, region, or territory not supported",
	},
	NotFound: {
		404, "invalid_request_error", "model_not_found", "",
		"The model `{model}` does not exist or you do not have access to it.",
	},
	TooLong: {
		400, "invalid_request_error", "context_length_exceeded", "messages",
		"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please " +
			"reduce the length of the messages.",
	},
	Policy: {
		400, "invalid_request_error", "content_policy_violation", "",
		"Your request was rejected as a result of our safety system.",
	},
	Invalid: {
		400, "invalid_request_error", "decimal_above_max_value", "temperature",
		"Invalid 'temperature': decimal above maximum value. Expected a value <= 2.",
	},
	ToolSchema: {
		400, "invalid_request_error", "invalid_function_parameters", "tools[0].function.parameters",
		"Invalid schema for function '{tool}': In context=(), object schema missing properties.",
	},
}

// responsesFailures are what the Responses API says in other words than chats.
var responsesFailures = map[Failure]told{
	TooLong: {
		400, "invalid_request_error", "context_length_exceeded", "input",
		"Your input exceeds the context window of this model. Please adjust your input and try again.",
	},
	Policy: {
		400, "invalid_request_error", "invalid_prompt", "",
		"Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
	},
	ToolSchema: {
		400, "invalid_request_error", "invalid_function_parameters", "tools[0].parameters",
		"Invalid schema for function '{tool}': In context=(), object schema missing properties.",
	},
}

var anthropicFailures = map[Failure]told{
	RateLimited: {
		429, "rate_limit_error", "", "",
		"This request would exceed your organization's rate limit of {max} {unit} per {minute}. Reduce the prompt " +
			"length or try again later.",
	},
	Quota: {
		400, "invalid_request_error", "", "",
		"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or " +
			"purchase credits.",
	},
	Overloaded:  {529, "overloaded_error", "", "", "Overloaded"},
	Unavailable: {503, "api_error", "", "", "Service temporarily unavailable"},
	ServerError: {500, "api_error", "", "", "Internal server error"},
	Timeout:     {504, "timeout_error", "", "", "The request timed out."},
	Auth:        {401, "authentication_error", "", "", "invalid x-api-key"},
	Forbidden: {
		403, "permission_error", "", "",
		"Your API key does not have permission to use the specified resource.",
	},
	NotFound: {404, "not_found_error", "", "", "model: {model}"},
	TooLong:  {400, "invalid_request_error", "", "", "prompt is too long: 210042 tokens > 200000 maximum"},
	Policy:   {400, "invalid_request_error", "", "", "Output blocked by content filtering policy"},
	Invalid:  {400, "invalid_request_error", "", "", "messages.0: all messages must have non-empty content"},
	ToolSchema: {
		400, "invalid_request_error", "", "",
		"tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12.",
	},
}

// In Google's tables typ is the status, code the reason of an ErrorInfo and param the id of a quota.
var geminiFailures = map[Failure]told{
	RateLimited: {
		429, "RESOURCE_EXHAUSTED", "", "GenerateRequestsPerMinutePerProjectPerModel",
		"You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: " +
			"generativelanguage.googleapis.com/generate_content_{unit}, limit: {max}",
	},
	Quota: {
		429, "RESOURCE_EXHAUSTED", "", "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
		"You exceeded your current quota, please check your plan and billing details.",
	},
	Overloaded:  {503, "UNAVAILABLE", "", "", "The model is overloaded. Please try again later."},
	Unavailable: {503, "UNAVAILABLE", "", "", "The service is currently unavailable."},
	ServerError: {500, "INTERNAL", "", "", "An internal error has occurred."},
	Timeout:     {504, "DEADLINE_EXCEEDED", "", "", "Deadline expired before operation could complete."},
	Auth:        {400, "INVALID_ARGUMENT", "API_KEY_INVALID", "", "API key not valid. Please pass a valid API key."},
	Forbidden: {
		403, "PERMISSION_DENIED", "SERVICE_DISABLED", "",
		"The Generative Language API has not been used in this project.",
	},
	NotFound: {
		404, "NOT_FOUND", "", "",
		"models/{model} is not found for API version v1beta, or is not supported for generateContent.",
	},
	TooLong: {
		400, "INVALID_ARGUMENT", "", "",
		"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
	},
	Policy: {400, "INVALID_ARGUMENT", "", "", "The prompt was blocked by the content policy: PROHIBITED_CONTENT."},
	Invalid: {
		400, "INVALID_ARGUMENT", "", "",
		"Invalid value at 'generation_config.temperature' (TYPE_FLOAT), \"warm\"",
	},
	ToolSchema: {
		400, "INVALID_ARGUMENT", "", "",
		"* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties: should be non-empty for " +
			"OBJECT type",
	},
}

// vertexFailures are what Vertex AI says in other words than the Developer API.
var vertexFailures = map[Failure]told{
	RateLimited: {429, "RESOURCE_EXHAUSTED", "", "", "Resource exhausted. Please try again later."},
	Auth: {
		401, "UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED", "",
		"Request had invalid authentication credentials. Expected OAuth 2 access token.",
	},
	Forbidden: {
		403, "PERMISSION_DENIED", "IAM_PERMISSION_DENIED", "",
		"Permission 'aiplatform.endpoints.predict' denied on resource.",
	},
	NotFound: {
		404, "NOT_FOUND", "", "",
		"Publisher Model `{model}` was not found or your project does not have access to it.",
	},
}

// In Bedrock's table typ is the name of an exception.
var bedrockFailures = map[Failure]told{
	RateLimited: {429, "ThrottlingException", "", "", "Too many {unit}, please wait before trying again."},
	Quota:       {429, "ThrottlingException", "", "", "Too many tokens per day, please wait before trying again."},
	Overloaded:  {503, "ServiceUnavailableException", "", "", "Model is overloaded, please try again later."},
	Unavailable: {503, "ServiceUnavailableException", "", "", "The service is unavailable."},
	ServerError: {
		500, "InternalServerException", "", "",
		"The system encountered an unexpected error during processing.",
	},
	Timeout: {408, "ModelTimeoutException", "", "", "The model timed out while processing your request."},
	Auth:    {403, "UnrecognizedClientException", "", "", "The security token included in the request is invalid."},
	Forbidden: {
		403, "AccessDeniedException", "", "",
		"User is not authorized to perform: bedrock:InvokeModel because no identity-based policy allows it",
	},
	NotFound: {
		404, "ResourceNotFoundException", "", "",
		"Could not resolve the foundation model from the provided model identifier.",
	},
	TooLong: {400, "ValidationException", "", "", "Input is too long for requested model."},
	Policy:  {400, "ValidationException", "", "", "Output blocked by content filtering policy"},
	Invalid: {
		400, "ValidationException", "", "",
		"The model returned the following errors: messages.1: roles must alternate",
	},
	ToolSchema: {
		400, "ValidationException", "", "",
		"The model returned the following errors: tools.0.custom.input_schema: JSON schema is invalid.",
	},
}

// bedrockInBand are the exceptions that a stream can end in.
var bedrockInBand = []string{
	"ThrottlingException", "ServiceUnavailableException", "InternalServerException", "ValidationException",
}
