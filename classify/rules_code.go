package classify

import "github.com/modelchain/llm"

// codeRules are codes that name one failure, whoever sends them. Quota comes first, as such errors carry rate codes
// too.
func codeRules() []Rule {
	return []Rule{
		{
			Name: "code.in_flight_budget", Step: StepCode, Code: []string{"openrouter_in_flight_budget"},
			Class: llm.RateLimited, Source: "OpenRouter: a 402 that passes when other calls end",
		},
		{
			Name: "code.quota_daily", Step: StepCode,
			Code:  []string{"openrouter_free_tier_daily", "*free_tier_daily", "daily_limit_exceeded"},
			Class: llm.Quota, CoolUntil: true, Source: "OpenRouter metadata.limit_source; Google's older APIs",
		},
		{
			Name: "code.quota", Step: StepCode,
			Code: []string{
				"insufficient_quota", "*:insufficient_quota", "insufficient_user_quota", "billing_not_active",
				"billing_hard_limit_reached", "billing_error", "billing_disabled", "insufficient_balance",
				"insufficient_balance_error", "insufficient*credit*", "insufficient*balance*", "out_of_credits",
				"credits_exhausted", "credit_limit_exceeded", "not_enough_balance", "billing_balance_not_enough",
				"payment_required", "payment_required_error", "quota_exhausted", "exceeded_current_quota_error",
				"usage_limit_reached", "usage_limit_exceeded", "usage_not_included", "budget_exceeded",
				"budget_exceeded_error", "*spending-limit*", "*spend_limit*", "service_quota_exceeded_exception",
				"arrearage", "account_overdue_error", "account_overdue", "allocation_quota.free_tier_only",
				"free_tier_only", "quota_value_zero", "openrouter_credits", "monthly_limit_exceeded",
				"overdue_payment", "postpaid_bill_overdue", "prepaid_bill_overdue", "invalid_subscription",
			},
			Class:  llm.Quota,
			Source: "OpenAI, Anthropic, xAI, Moonshot, DashScope, Volcengine, one-api, LiteLLM, Google ErrorInfo",
		},
		{
			Name: "code.too_long", Step: StepCode,
			Code: []string{
				"context_length_exceeded", "context_length_exceeded_error", "exceed_context_size_error",
				"context_window_exceeded", "context_window_exceeded_error", "litellm.context_window_exceeded_error",
				"context_too_long", "request_too_large", "request_too_large_error", "input_too_long",
				"input_too_large", "prompt_too_long", "model_context_window_exceeded",
				"model_max_prompt_tokens_exceeded", "tokens_limit_reached", "max_context_length_exceeded",
				"context_overflow", "content_length_exceeded", "content_length_exceeds_threshold",
				"payload_too_large", "request_entity_too_large",
			},
			Class: llm.TooLong, Source: "OpenAI, llama.cpp, Anthropic, GitHub, LiteLLM",
		},
		{
			Name: "code.too_long_messages", Step: StepCode,
			Code:  []string{"string_above_max_length", "array_above_max_length"},
			Param: []string{"messages*", "input*", "prompt*", "contents*", "instructions"}, Class: llm.TooLong,
			Source: "OpenAI: the same code for a user name is a plain mistake",
		},
		{
			Name: "code.refused", Step: StepCode,
			Code: []string{
				"content_filter", "content_filter_error", "content_policy_violation",
				"content_policy_violation_error", "responsible_ai_policy_violation", "invalid_prompt",
				"data_inspection_failed", "*sensitive_content*", "moderation_reasons", "flagged_input",
				"prohibited_content", "moderation_blocked", "content_moderation*", "guardrail_intervened",
				"guardrail_violation", "safety_violation", "usage_policy_violation", "illegal_prompt",
				"censorship_blocked", "content_policy_error", "content_blocked", "image_safety", "model_armor",
				"cyber_policy", "image_content_policy_violation",
			},
			Class: llm.Refused, Source: "OpenAI, Azure, DashScope, Volcengine, OpenRouter metadata",
		},
		{
			Name: "code.model_field", Step: StepCode, Status: []int{422}, Code: []string{"unknown_model"},
			Class: llm.Unsupported, Source: "Mistral: the field model is malformed for it",
		},
		{
			Name: "code.not_found", Step: StepCode,
			Code: []string{
				"model_not_found", "model_not_found_error", "deployment_not_found", "unknown_deployment",
				"model_decommissioned", "model_deprecated", "model_not_open", "model_not_exist",
				"model_not_available", "model_terms_required", "no_such_model", "model_access_denied",
				"invalid_endpoint_or_model.not_found", "invalid_endpoint_or_model*", "invalid_model",
				"unknown_model", "model_invalid", "resource_not_found_exception", "resource_not_found_error",
				"model_not_active", "inference_endpoint_not_found", "endpoint_not_found",
				"access_denied.unpurchased",
			},
			Class: llm.NotFound, Source: "OpenAI, Azure, Groq, Bedrock, Volcengine, DashScope",
		},
		{
			Name: "code.unsupported", Step: StepCode,
			Code: []string{
				"unsupported_parameter", "unsupported_value", "operation_not_supported", "model_not_supported",
				"unsupported_model", "unsupported_api_for_model", "unsupported_params_error",
				"feature_not_supported", "not_supported_error", "unsupported_operation",
			},
			Class:  llm.Unsupported,
			Source: "OpenAI, Azure, Mistral, LiteLLM, GitHub: another model may take the request",
		},
		{
			Name: "code.auth", Step: StepCode,
			Code: []string{
				"invalid_api_key", "incorrect_api_key", "missing_api_key", "api_key_invalid", "api_key_not_found",
				"api_key_expired", "api_key_service_blocked", "api_key_http_referrer_blocked",
				"api_key_ip_address_blocked", "consumer_suspended", "consumer_invalid", "service_disabled",
				"user_project_denied", "access_token_expired", "access_token_scope_insufficient",
				"access_token_type_unsupported", "account_state_invalid", "unrecognized_client_exception",
				"expired_token_exception", "expired_token", "invalid_signature_exception", "incomplete_signature*",
				"missing_authentication_token*", "invalid_client_token_id", "signature_does_not_match",
				"request_expired", "opt_in_required", "unsupported_country_region_territory", "ip_not_authorized",
				"ip_not_allowed", "account_deactivated", "organization_restricted", "account_suspended",
				"access_terminated", "invalid_organization", "mismatched_organization", "no_organization",
				"authentication_error", "invalid_authentication_error", "invalid_authentication", "auth_error",
				"authentication_failed", "failed_to_auth", "client_validation_error", "invalid_issuer",
				"token_expired", "billing_auth_failed",
			},
			Class: llm.Auth, Source: "OpenAI, Google ErrorInfo, AWS, Moonshot",
		},
		{
			Name: "code.overloaded", Step: StepCode,
			Code: []string{
				"overloaded_error", "overloaded", "server_is_overloaded", "engine_overloaded",
				"engine_overloaded_error", "model_overloaded", "server_overloaded", "model_capacity_exhausted",
				"model_capacity_exceeded", "capacity_exceeded", "no_capacity", "insufficient_capacity",
				"model_not_ready_exception", "slow_down", "server_busy", "capacity_limit_reached",
				"no_capacity_available", "model_at_capacity",
			},
			Class: llm.Overloaded, Source: "Anthropic, OpenAI, Google, Bedrock, Groq, Moonshot, Volcengine",
		},
		{
			Name: "code.bad_output", Step: StepCode,
			Code: []string{
				"tool_use_failed", "json_validate_failed", "output_parse_failed", "malformed_function_call",
				"malformed_tool_use", "malformed_model_output", "json_schema_validation_error",
				"structured_output_failed",
			},
			Class: llm.BadOutput, Source: "Groq, Gemini, Bedrock: the model erred; asking again often passes",
		},
	}
}

// hintRules are codes that name a failure where no phrase says better.
func hintRules() []Rule {
	return []Rule{
		{
			Name: "hint.quota", Step: StepHint, Status: []int{400, 401, 402, 403}, Code: []string{"quota_exceeded"},
			Class: llm.Quota, Source: "beside 429 the same code is pacing",
		},
		{
			Name: "hint.timeout", Step: StepHint, Status: []int{0, 200, 408, 499, 500, 504, 524},
			Code: []string{
				"model_timeout_exception", "timeout_error", "request_timeout", "gateway_timeout",
				"deadline_exceeded", "upstream_timeout", "timeout", "request_timed_out", "api_timeout_error",
				"litellm.timeout", "inference_timeout",
			},
			Class: llm.Timeout, Source: "Bedrock, Anthropic, Google",
		},
		{
			Name: "hint.unavailable", Step: StepHint, Status: []int{0, 200, 424, 429, 500, 502, 503, 520},
			Code: []string{
				"service_unavailable_exception", "service_unavailable", "service_unavailable_error",
				"model_stream_error_exception", "model_error_exception", "internal_server_exception",
				"internal_failure", "incomplete_generation", "generation", "server_error", "internal_server_error",
				"upstream_error",
			},
			VetoCode: []string{"insufficient_quota"}, Class: llm.Unavailable,
			Source: "Bedrock, TGI, OpenAI's early 429",
		},
		{
			Name: "hint.rate_limited", Step: StepHint, Status: []int{0, 200, 400, 402, 403, 429, 500, 502, 503},
			Code: []string{
				"rate_limit_exceeded", "rate_limit_error", "rate_limited", "rate_limit_reached",
				"rate_limit_reached_error", "rate_limit", "ratelimit", "rate_limit_exceeded_error",
				"rate_limit_exceeded*", "litellm.rate_limit_error", "throttling_exception", "throttling",
				"throttling.*", "throttling_error", "throttled", "throttled_exception", "too_many_requests",
				"too_many_requests_exception", "too_many_requests_error", "request_limit_exceeded",
				"token_quota_exceeded", "request_quota_exceeded", "too_many_tokens_error",
				"concurrency_limit_exceeded", "limit_requests", "limit_burst_rate", "user_rate_limit_exceeded",
				"model_rate_limit", "limit_exceeded", "tpm_limit_exceeded", "rpm_limit_exceeded",
			},
			Class: llm.RateLimited, Source: "everywhere",
		},
	}
}

// vagueRules are codes that fit many failures. They are asked last, for answers without a telling status.
func vagueRules() []Rule {
	return []Rule{
		{
			Name: "vague.rate_limited", Step: StepVague,
			Code: []string{"resource_exhausted", "quota_exceeded", "tokens", "requests"}, Class: llm.RateLimited,
			Source: "Google's status word; OpenAI's types",
		},
		{
			Name: "vague.not_found", Step: StepVague, Code: []string{"not_found", "not_found_error"},
			Class: llm.NotFound, Source: "Anthropic, Google",
		},
		{
			Name: "vague.auth", Step: StepVague,
			Code: []string{
				"unauthenticated", "unauthorized", "permission_denied", "permission_error",
				"permission_denied_error", "access_denied", "access_denied_exception", "forbidden",
				"request_forbidden", "insufficient_permissions",
			},
			Class: llm.Auth, Source: "Anthropic, Google, AWS",
		},
		{
			Name: "vague.unavailable", Step: StepVague,
			Code: []string{
				"api_error", "internal", "internal_error", "unavailable", "unknown", "aborted", "provider_error",
				"server_unavailable", "overload", "bad_gateway", "stream_error", "connection_error",
			},
			Class: llm.Unavailable, Source: "Anthropic, Google",
		},
		{
			Name: "vague.invalid", Step: StepVague,
			Code: []string{
				"invalid_request_error", "invalid_request", "invalid_argument", "bad_request", "bad_request_error",
				"validation_exception", "validation_error", "validation", "failed_precondition", "out_of_range",
				"unprocessable_entity", "unprocessable_entity_error", "invalid_parameter*", "invalid_params",
				"malformed_request", "invalid_value", "missing_required_parameter", "invalid_type",
			},
			Class: llm.Invalid, Source: "OpenAI, Google, Bedrock",
		},
	}
}
