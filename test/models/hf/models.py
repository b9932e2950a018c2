"""Tiny models of `transformers`, randomly initialized, by kind of inputs. batches.py has the inputs of each kind."""
import transformers as hf

VOCABULARY, SEQUENCE, IMAGE, CLASSES, MELS, FRAMES = 80, 24, 16, 10, 8, 32
WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": VOCABULARY,
         "max_position_embeddings": 64}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPS = {"num_key_value_heads": 2}
SMALL_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2}
# Every expert computes every token that chose it by a batched matmul: shapes are static. The default loops over the experts that were chosen,
# or uses a grouped matmul, which only shale.export writes: its cases use that.
EXPERTS = {"num_experts_per_tok": 2, "experts_implementation": "batched_mm", "output_router_logits": True, "router_aux_loss_coef": 0.02}
CAUSAL = {
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**SMALL_GPT)),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**WIDTH, **GROUPS, **TOKENS)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**WIDTH, **GROUPS, **TOKENS)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**WIDTH, **GROUPS, **TOKENS, head_dim=8, tie_word_embeddings=True)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**WIDTH, **GROUPS, **TOKENS, head_dim=8, query_pre_attn_scalar=8, sliding_window=8)),
    "phi3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**WIDTH, **GROUPS, **TOKENS)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**WIDTH, **GROUPS, **TOKENS, sliding_window=8)),
    "opt": lambda: hf.OPTForCausalLM(hf.OPTConfig(hidden_size=32, word_embed_proj_dim=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4,
                                                  vocab_size=VOCABULARY, max_position_embeddings=64, **TOKENS)),
    "neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**WIDTH, bos_token_id=1, eos_token_id=2)),
    "bloom": lambda: hf.BloomForCausalLM(hf.BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=VOCABULARY, **TOKENS)),
    "phi": lambda: hf.PhiForCausalLM(hf.PhiConfig(**WIDTH, **TOKENS, partial_rotary_factor=0.5)),
    "gptneo": lambda: hf.GPTNeoForCausalLM(hf.GPTNeoConfig(hidden_size=32, num_layers=2, num_heads=4, intermediate_size=64, vocab_size=VOCABULARY,
                                                           max_position_embeddings=64, attention_types=[[["global", "local"], 1]], window_size=8,
                                                           bos_token_id=1, eos_token_id=2)),
    "bigcode": lambda: hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(**SMALL_GPT)),
    "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**WIDTH, **GROUPS, **TOKENS, head_dim=8)),
    "gemma3": lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**WIDTH, **GROUPS, **TOKENS, head_dim=8, query_pre_attn_scalar=8, sliding_window=8)),
    "mpt": lambda: hf.MptForCausalLM(hf.MptConfig(d_model=32, n_heads=4, n_layers=2, expansion_ratio=2, max_seq_len=64, vocab_size=VOCABULARY)),
    "stablelm": lambda: hf.StableLmForCausalLM(hf.StableLmConfig(**WIDTH, **GROUPS, **TOKENS, use_qkv_bias=True, qk_layernorm=True)),
    "olmo2": lambda: hf.Olmo2ForCausalLM(hf.Olmo2Config(**WIDTH, **GROUPS, **TOKENS)),
    "starcoder2": lambda: hf.Starcoder2ForCausalLM(hf.Starcoder2Config(**WIDTH, **GROUPS, bos_token_id=1, eos_token_id=2, residual_dropout=0,
                                                                       embedding_dropout=0)),
    "cohere": lambda: hf.CohereForCausalLM(hf.CohereConfig(**WIDTH, **GROUPS, **TOKENS, use_qk_norm=True)),
    "granite": lambda: hf.GraniteForCausalLM(hf.GraniteConfig(**WIDTH, **GROUPS, **TOKENS, residual_multiplier=0.7, attention_multiplier=0.3,
                                                              logits_scaling=2.0)),
    "smollm3": lambda: hf.SmolLM3ForCausalLM(hf.SmolLM3Config(**WIDTH, **GROUPS, **TOKENS)),
    "glm": lambda: hf.GlmForCausalLM(hf.GlmConfig(**WIDTH, **GROUPS, **TOKENS, head_dim=8, partial_rotary_factor=0.5)),
    "gptj": lambda: hf.GPTJForCausalLM(hf.GPTJConfig(**SMALL_GPT, rotary_dim=4)),
    "falcon": lambda: hf.FalconForCausalLM(hf.FalconConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, vocab_size=VOCABULARY,
                                                           alibi=True, multi_query=False, parallel_attn=False,
                                                           new_decoder_architecture=False, **TOKENS)),
    "nemotron": lambda: hf.NemotronForCausalLM(hf.NemotronConfig(**WIDTH, **GROUPS, **TOKENS, head_dim=8)),
    "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**WIDTH, **GROUPS, **TOKENS, num_local_experts=4, **EXPERTS)),
    "olmoe": lambda: hf.OlmoeForCausalLM(hf.OlmoeConfig(**WIDTH, **GROUPS, **TOKENS, num_experts=4, **EXPERTS)),
    "qwen3moe": lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**WIDTH, **GROUPS, **TOKENS, head_dim=8, moe_intermediate_size=16, num_experts=4,
                                                                 **EXPERTS)),
    "mamba": lambda: hf.MambaForCausalLM(hf.MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=4, vocab_size=VOCABULARY, **TOKENS)),
}
# Only shale.export writes these: grouped matmuls, and complex numbers, which the rotary positions of Llama 4 are.
EXPORTED = {
    "llama4": lambda: hf.Llama4ForCausalLM(hf.Llama4TextConfig(**WIDTH, **GROUPS, **TOKENS, head_dim=8, intermediate_size_mlp=64, num_local_experts=4,
                                                               num_experts_per_tok=2, attention_chunk_size=16)),
    "deepseek3": lambda: hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(
        **WIDTH, **TOKENS, num_key_value_heads=4, moe_intermediate_size=16, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, n_group=2,
        topk_group=1, first_k_dense_replace=1, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8)),
    "gptoss": lambda: hf.GptOssForCausalLM(hf.GptOssConfig(
        **WIDTH, **GROUPS, **TOKENS, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=8, output_router_logits=True)),
    "granitemoe": lambda: hf.GraniteMoeForCausalLM(hf.GraniteMoeConfig(
        **WIDTH, **GROUPS, **TOKENS, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True)),
}
ENCODERS = {
    "roberta": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**WIDTH, **TOKENS)),
    "distilbert": lambda: hf.DistilBertForMaskedLM(hf.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=VOCABULARY,
                                                                       max_position_embeddings=64)),
    "electra": lambda: hf.ElectraForMaskedLM(hf.ElectraConfig(**WIDTH, embedding_size=16)),
    "albert": lambda: hf.AlbertForMaskedLM(hf.AlbertConfig(**WIDTH, **TOKENS, embedding_size=16)),
    "modernbert": lambda: hf.ModernBertForMaskedLM(hf.ModernBertConfig(**WIDTH, **TOKENS, cls_token_id=1, sep_token_id=2, local_attention=8,
                                                                       global_attn_every_n_layers=2)),
    "mpnet": lambda: hf.MPNetForMaskedLM(hf.MPNetConfig(**WIDTH, **TOKENS)),
}
TYPED = {  # encoders with token types
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**WIDTH)),
}
PAIRS = {  # an encoder and a decoder; with SDPA, dynamo's exporter does not decompose T5's attention
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=VOCABULARY,
                                                            relative_attention_num_buckets=8, relative_attention_max_distance=16,
                                                            decoder_start_token_id=0, attn_implementation="eager")),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                                                                  decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
                                                                  vocab_size=VOCABULARY, max_position_embeddings=64, decoder_start_token_id=2,
                                                                  **TOKENS)),
}
IMAGES = {
    "vit": lambda: hf.ViTForImageClassification(hf.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                                             image_size=IMAGE, patch_size=4, num_labels=CLASSES)),
    "vitresized": lambda: hf.ViTForImageClassification(hf.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                                                    image_size=IMAGE // 2, patch_size=4, num_labels=CLASSES)),
}
AUDIO = {
    "whisper": lambda: hf.WhisperForAudioClassification(hf.WhisperConfig(d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64,
                                                                         num_mel_bins=MELS, max_source_positions=FRAMES // 2, vocab_size=VOCABULARY,
                                                                         num_labels=CLASSES, classifier_proj_size=16, **TOKENS)),
}
TOWERS = {  # text beside images
    "clip": lambda: hf.CLIPModel(hf.CLIPConfig(
        text_config={**WIDTH, **TOKENS}, projection_dim=16, logit_scale_init_value=0.5,
        vision_config={"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": IMAGE,
                       "patch_size": 4})),
}
# Cases by model: the words of export.py that every case of it has. The optimizer of dynamo's exporter folds and merges parameters of these, so
# that the file cannot be trained; shalec says so, and advises optimize=False.
ALWAYS = {"nemotron": "raw", "mamba": "raw", "vitresized": "raw"}
# Operations by model. Routers compute a softmax again for their loss, and the optimizer merges the two. The file does not show that neither is
# detached: a model in which one is gives the same bytes. shalec is told.
MERGED = {"mixtral": "aten.softmax.int", "olmoe": "aten.softmax.int", "qwen3moe": "aten.softmax.int"}
# TorchScript's exporter folds a buffer or a function of a parameter of these: shalec refuses that, and they are exported unfolded.
FOLDED = ("bart", "whisper", "mamba", "nemotron", "gemma", "gemma2", "gemma3", "vitresized")
# Their backward is a torch.autograd.Function's, so they have no derived gradients.
UNDERIVED = ("bloom",)
# TorchScript's exporter refuses these, or writes something else. Without attention_mask it refuses all decoders (aten::diff, of transformers).
UNSCRIPTED = {
    "glm": "AssertionError: All tensors must have the same rank",
    "cohere": "the file's shapes of rotary positions do not fit: ONNX Runtime and shalec refuse it",
    "falcon": "the file casts the slopes of ALiBi, which are bf16, to complex numbers",
    "own": "UnsupportedOperatorError: Exporting the operator 'aten::rms_norm' to ONNX opset version 17 is not supported",
    "encoder": "the file lacks padding_idx, so that the row of padding is trained",
    "prenorm": "the file lacks padding_idx, so that the row of padding is trained",
}
KINDS = (CAUSAL, EXPORTED, ENCODERS, TYPED, PAIRS, IMAGES, AUDIO, TOWERS)
MASKABLE = (CAUSAL, ENCODERS, PAIRS, TOWERS)  # exported without and with masks
